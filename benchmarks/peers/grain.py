"""grain: ArrayRecord files, its MapDataset with two reading threads; simplejpeg + OpenCV do the work."""

import data

VERSIONS = ["grain", "array_record", "simplejpeg", "opencv-python-headless"]
PREPARED = {"plain": "arrayrecord"}


def prepare(row, folder):
    from array_record.python.array_record_module import ArrayRecordWriter

    place = folder / "arrayrecord.part"
    place.mkdir(exist_ok=True)
    samples, each = data.pairs(folder), data.COUNTS["photos"] // 4
    for shard in range(4):
        sink = ArrayRecordWriter(str(place / f"{shard}.arrayrecord"), "group_size:1")
        for _ in range(each):
            jpeg, label = next(samples)
            sink.write(label.to_bytes(4, "little") + jpeg)
        sink.close()
    place.rename(folder / "arrayrecord")


def opencv(folder):
    import crops
    import cv2
    import grain

    cv2.setNumThreads(1)
    source = grain.sources.ArrayRecordDataSource(
        [str(folder / "arrayrecord" / f"{shard}.arrayrecord") for shard in range(4)]
    )

    def decode(record):
        return crops.with_opencv(record[4:]), int.from_bytes(record[:4], "little")

    reading = grain.ReadOptions(num_threads=2, prefetch_buffer_size=128)
    return grain.MapDataset.source(source).map(decode).to_iter_dataset(reading).batch(64)


ROWS = {"plain": {"grain, simplejpeg + OpenCV, 2 threads": opencv}}
