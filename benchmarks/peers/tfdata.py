"""tf.data: TFRecord files, the recipe of TensorFlow's ImageNet examples (decode only the crop), two threads."""

import os

import data

VERSIONS = ["tensorflow-cpu", "numpy"]
PREPARED = {"antialiased": "tfrecord", "plain": "tfrecord", "tokens": "tfrecord-tokens", "small": "tfrecord-small"}
PREPARE = {"tokens": lambda *where: prepare_tokens(*where), "small": lambda *where: prepare_small(*where)}


def prepare(row, folder):
    place = folder / PREPARED[row]
    os.makedirs(f"{place}.part", exist_ok=True)
    PREPARE.get(row, prepare_photos)(folder, f"{place}.part")
    os.rename(f"{place}.part", place)


def feature(**values):
    import tensorflow as tf

    def one(value):
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    features = {name: one(value) for name, value in values.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def prepare_photos(folder, place):
    import tensorflow as tf

    samples, each = data.pairs(folder), data.COUNTS["photos"] // 4
    for shard in range(4):
        with tf.io.TFRecordWriter(f"{place}/{shard}.tfrecord") as sink:
            for _ in range(each):
                jpeg, label = next(samples)
                sink.write(feature(jpg=jpeg, cls=label))


def prepare_tokens(folder, place):
    import tarfile

    import tensorflow as tf

    for shard, path in enumerate(data.shards(folder, "tokens")):
        with tarfile.open(path) as tar, tf.io.TFRecordWriter(f"{place}/{shard}.tfrecord") as sink:
            for member in tar:
                sink.write(feature(tokens=tar.extractfile(member).read()[-1024:]))
                tar.members.clear()


def prepare_small(folder, place):
    """The values of the json and the bytes of the array: TFRecord has no json, so nothing is left to be decoded from it."""
    import json
    import tarfile

    import tensorflow as tf

    sinks = [tf.io.TFRecordWriter(f"{place}/{shard}.tfrecord") for shard in range(4)]
    for shard, path in enumerate(data.shards(folder, "small")):
        with tarfile.open(path) as tar:
            members = iter(tar)
            for member in members:
                text = json.loads(tar.extractfile(member).read())
                array = tar.extractfile(next(members)).read()[-768:]
                text["caption"] = text["caption"].encode()
                sinks[shard % 4].write(feature(array=array, **text))
                tar.members.clear()
    for sink in sinks:
        sink.close()


def limited(dataset):
    """Two threads for everything, as the others have."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    options.threading.max_intra_op_parallelism = 1
    options.deterministic = False
    return dataset.with_options(options)


def files(folder, name):
    import tensorflow as tf

    paths = [str(folder / name / f"{shard}.tfrecord") for shard in range(4)]
    return tf.data.TFRecordDataset(paths, buffer_size=8 << 20, num_parallel_reads=2)


def photos(folder, antialias):
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    wanted = {"jpg": tf.io.FixedLenFeature([], tf.string), "cls": tf.io.FixedLenFeature([], tf.int64)}

    def decode(record):
        sample = tf.io.parse_single_example(record, wanted)
        jpeg = sample["jpg"]
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(jpeg),
            bounding_boxes=tf.zeros([1, 0, 4]),
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.image.decode_and_crop_jpeg(jpeg, window, channels=3)
        image = tf.image.resize(image, [224, 224], method="bilinear", antialias=antialias)
        image = tf.image.random_flip_left_right(image)
        return tf.cast(image, tf.uint8), sample["cls"]

    dataset = files(folder, "tfrecord").map(decode, num_parallel_calls=2).batch(64).prefetch(2)
    return limited(dataset).as_numpy_iterator()


def tokens(folder):
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(2)
    wanted = {"tokens": tf.io.FixedLenFeature([], tf.string)}

    def decode(records):
        return tf.io.decode_raw(tf.io.parse_example(records, wanted)["tokens"], tf.uint16)

    dataset = files(folder, "tfrecord-tokens").batch(256).map(decode, num_parallel_calls=2).prefetch(2)
    return ([batch] for batch in limited(dataset).as_numpy_iterator())


def small(folder):
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(2)
    wanted = {name: tf.io.FixedLenFeature([], tf.int64) for name in ("id", "label")}
    wanted |= {name: tf.io.FixedLenFeature([], tf.string) for name in ("caption", "array")}

    def decode(records):
        found = tf.io.parse_example(records, wanted)
        return found["id"], found["label"], found["caption"], tf.io.decode_raw(found["array"], tf.float64)

    dataset = files(folder, "tfrecord-small").batch(256).map(decode, num_parallel_calls=2).prefetch(2)
    return limited(dataset).as_numpy_iterator()


ROWS = {
    "antialiased": {"tf.data, TFRecord, antialiased, 2 threads": lambda folder: photos(folder, True)},
    "plain": {"tf.data, TFRecord, 2 threads": lambda folder: photos(folder, False)},
    "tokens": {"tf.data, TFRecord, whole batches parsed, 2 threads": tokens},
    "small": {"tf.data, TFRecord, whole batches parsed, 2 threads": small},
}
