"""What do `decode → to_tuple → batched(256)` cost per small sample, on top of reading it?

    python benchmarks/stages.py

Samples of about 1 kB (json + npy + cls) lie in memory as bytes, so nothing is read. Prints one JSON object, µs of processor time per sample,
best of five. The target is 6 µs (issue: small samples).
"""

import argparse
import io
import json
import time

import lab
import numpy as np

from webdataset.flow import Pass, apply_each
from webdataset.stages import batched, decode, shuffle, to_tuple

COUNT = 500 if lab.SMALL else 20_000


def make_samples():
    npy = io.BytesIO()
    np.save(npy, np.arange(100.0))
    meta = json.dumps({"label": 3, "name": "a small sample"}).encode()
    return [
        {"__key__": f"{n:06}", "__url__": "a.tar", "json": meta, "npy": npy.getvalue(), "cls": b"7"}
        for n in range(COUNT)
    ]


def best(build):
    times = []
    for _ in range(5):
        samples = [dict(sample) for sample in SAMPLES]
        start = time.process_time()
        for _ in build(iter(samples)):
            pass
        times.append(time.process_time() - start)
    return round(min(times) / COUNT * 1e6, 2)


SAMPLES = make_samples()


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    during = Pass()
    decoding, choosing = decode().function(during), to_tuple("json", "npy", "cls").function(during)
    raw = to_tuple("json", "npy", "cls")
    result = {
        "loop alone": best(lambda items: items),
        "decode": best(lambda items: apply_each([decoding], items)),
        "to_tuple": best(lambda items: raw(items)),
        "decode → to_tuple → batched": best(lambda items: batched(256)(apply_each([decoding, choosing], items))),
        "to_tuple → batched, without decoding": best(lambda items: batched(256)(raw(items))),
        "shuffle(1000)": best(lambda items: shuffle(1000)(items)),
    }
    print(json.dumps({"µs per sample": result}, ensure_ascii=False, indent=2))


if __name__ == "__main__":
    main()
