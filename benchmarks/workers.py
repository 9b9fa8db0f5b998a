"""Do workers ever cost anything? Every kind of data, by a loader without workers, with two threads, with two processes."""

import data
import lab

if __name__ == "__main__":
    lab.answer(__doc__, [row for row in data.KIND if row.startswith("workers: ")])
