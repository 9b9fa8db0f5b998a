"""Sound: files of several rates, resampled to one, cut into clips of equal length. No sound is left out.

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


def clips(sounds):
    """A stage: all clips of every sound; the last one is filled up with silence."""
    for wave, label in sounds:
        for start in range(0, wave.shape[1], LENGTH):
            part = wave[:, start : start + LENGTH]
            yield np.pad(part, ((0, 0), (0, LENGTH - part.shape[1]))), part.shape[1], label


def main():
    rates = [8000, 16000, 22050, 44100]
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/sound-%03d.tar", maxcount=8) as sink:
            for number in range(16):
                rate = rates[number % 4]
                seconds = 1 + number % 3 / 10  # 16000, 17600 or 19200 at RATE
                sink.write({"__key__": f"{number:03d}", "flac": (tone(440, rate, seconds), rate), "cls": number})
        dataset = (
            wds.WebDataset(f"{folder}/sound-{{000..001}}.tar", shardshuffle=False)
            .decode("audio")
            .to_tuple("flac", "cls")
            .map_tuple(resampled, None)
            .compose(clips)
            .batched(4)
        )
        count, seconds, pitches = 0, 0.0, []
        for waves, lengths, _ in dataset:
            assert waves.shape[1:] == (1, LENGTH)
            count += len(waves)
            seconds += lengths.sum() / RATE
            spectrum = abs(np.fft.rfft(waves[lengths == LENGTH, 0], axis=1))
            pitches += (spectrum.argmax(1) * RATE / LENGTH).tolist()
    assert all(abs(pitch - 440) < 4 for pitch in pitches), "resampling keeps the pitch"
    print(f"{count} clips of {LENGTH} at {RATE} Hz, from rates {rates}: {seconds:.1f} of 17.5 seconds kept")


if __name__ == "__main__":
    main()
