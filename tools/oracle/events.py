"""Writes internal/trainer/events/testdata with TensorBoard's own record writer. Run from the repository root."""

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

EVENTS = [
    (0, 1700000001.5, [("loss/train", 10.910788)]),
    (1, 1700000002.5, [("loss/train", 9.132059), ("lr", 2e-5)]),
    (300, 1700000003.5, [("validation/spearman", -0.25), ("été", 0.0)]),
]

with open("internal/trainer/events/testdata/events.out.tfevents.1700000000.oracle", "wb") as f:
    w = RecordWriter(f)
    w.write(Event(wall_time=1700000000.25, file_version="brain.Event:2").SerializeToString())
    for step, wall, scalars in EVENTS:
        values = [Summary.Value(tag=t, simple_value=v) for t, v in scalars]
        w.write(Event(wall_time=wall, step=step, summary=Summary(value=values)).SerializeToString())
    w.flush()
