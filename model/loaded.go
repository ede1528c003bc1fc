package model

// What is asked of the network that a scorer, a tuner or a language model is over.

// Device is where the graphs run: cpu or cuda:N.
func (s *Scorer) Device() string { return s.net.Device() }

// Absent says what is missing of the backbone's weights; nil if they are there.
func (s *Scorer) Absent() error { return s.net.Absent() }

// Partly reports whether a part of the absent weights is there: a shard is missing.
func (s *Scorer) Partly() bool { return s.net.Partly() }

// Device is where the graphs run: cpu or cuda:N.
func (t *Tuner) Device() string { return t.scorer.net.Device() }

// Absent says what is missing of the backbone's weights; nil if they are there.
func (t *Tuner) Absent() error { return t.scorer.net.Absent() }

// Partly reports whether a part of the absent weights is there: a shard is missing.
func (t *Tuner) Partly() bool { return t.scorer.net.Partly() }

// Damage names a tensor of the backbone or the scorer that holds NaN or infinities; nil if there is none.
func (t *Tuner) Damage() error { return t.scorer.net.Damage() }

// BackboneFingerprint identifies the backbone; see [Scorer.Fingerprint].
func (t *Tuner) BackboneFingerprint() (string, error) { return t.scorer.net.BackboneFingerprint() }

// ClearCache forgets all pictures in memory: for measurements.
func (s *Scorer) ClearCache() { s.run.Features.ClearCache() }
