"""Sound: files of several rates, resampled to one, cut into clips of equal length.

python examples/domains/audio.py
"""

import tempfile

import numpy as np

import webdataset as wds

RATE, LENGTH = 16000, 8000


def tone(hertz, rate, seconds=1):
    return np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate).astype(np.float32)[None]


def resampled(sound):
    """(waveform, rate) at RATE, by PyAV."""
    import av

    wave, rate = sound
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(wave), format="fltp", layout="mono")
    frame.sample_rate = rate
    resampler = av.AudioResampler(format="fltp", layout="mono", rate=RATE)
    frames = [*resampler.resample(frame), *resampler.resample(None)]
    return np.concatenate([part.to_ndarray() for part in frames], 1)


def clip(wave):
    return wave[:, :LENGTH] if wave.shape[1] >= LENGTH else np.pad(wave, ((0, 0), (0, LENGTH - wave.shape[1])))


def main():
    rates = [8000, 16000, 22050, 44100]
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/sound-%03d.tar", maxcount=8) as sink:
            for number in range(16):
                rate = rates[number % 4]
                sink.write({"__key__": f"{number:03d}", "flac": (tone(440, rate), rate), "cls": number})
        dataset = (
            wds.WebDataset(f"{folder}/sound-{{000..001}}.tar", shardshuffle=False)
            .decode("audio")
            .to_tuple("flac", "cls")
            .map_tuple(resampled, None)
            .map_tuple(clip, None)
            .batched(4)
        )
        clips, pitches = 0, []
        for waves, _ in dataset:
            assert waves.shape[1:] == (1, LENGTH)
            clips += len(waves)
            spectrum = abs(np.fft.rfft(waves[:, 0], axis=1))
            pitches += (spectrum.argmax(1) * RATE / LENGTH).tolist()
    assert all(abs(pitch - 440) < 4 for pitch in pitches), "resampling keeps the pitch"
    print(f"{clips} clips of {LENGTH} at {RATE} Hz, from rates {rates}")


if __name__ == "__main__":
    main()
