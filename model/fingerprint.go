package model

import (
	"encoding/json"
	"fmt"
	"strings"

	"assay/edit"
	"assay/internal/store"
	"assay/model/exec"
)

// Fingerprint identifies a scorer's configuration, tensors and backbone.
func (s *Scorer) Fingerprint() (string, error) {
	print, err := s.net.Fingerprint(s.config.identity(), nil, nil)
	if k := s.calibrationIdentity(); err == nil && k != "" {
		print = store.KeyOf(print, k).String()[:24]
	}
	return print, err
}

// StateFingerprint identifies what the hidden states at the score token depend on: all but the head.
func (s *Scorer) StateFingerprint() (string, error) {
	identity, own := s.config.identity(), (func(string) bool)(nil)
	if s.config.AddsToken() {
		f := s.config.OnePass()
		f.Head, f.ScoreRange, f.TextLoss = HeadConfig{}, edit.Range{}, ""
		identity, own = f.identity(), func(name string) bool { return !strings.HasPrefix(name, "layers.") }
	}
	print, err := s.net.Fingerprint(identity, own, nil)
	return print + " " + s.net.Arithmetic(), err
}

// featureIdentity is the part of a configuration that image features depend on.
func (c *ScorerConfig) featureIdentity() string {
	if c.Rotary == "bfloat16" {
		return (&ScorerConfig{Rotary: c.Rotary}).identity()
	}
	return exec.NoScorer
}

// identity is everything in a configuration that affects scores, as a text that must stay the same across versions:
// fingerprints of format 1 predate format 2. The location and the origin of backbone and weights do not matter.
func (c *ScorerConfig) identity() string {
	if c.AddsToken() {
		return c.OnePass().identity()
	}
	shared := OnePassConfig{Format: c.Format, PairSize: c.PairSize, ScoreRange: c.ScoreRange, DType: c.DType,
		ChatTemplate: c.ChatTemplate, EndOfTurn: c.EndOfTurn, NumberPictures: c.NumberPictures, Members: c.Members}
	raw, err := json.Marshal(struct { // names and order of fields are part of every fingerprint
		Kind, Weights, Positions, Rotary, Alpha string
		Pixels                                  *PixelLimits
		Passes                                  []PassConfig
		Heads                                   map[string]DimensionConfig
		Score                                   *FusionConfig
		Origin                                  *Origin
	}{c.Kind, "", c.Positions, c.Rotary, c.Alpha, c.Pixels, c.Passes, c.Heads, c.Score, nil})
	text := fmt.Sprint(shared.identity(), string(raw), err)
	if c.endsChoices() { // whose scores were others at first
		text += " ended choices"
	}
	return text
}

// endsChoices reports whether a joint choice begins another, as texts: then they may have an end, see [endChoices].
func (c *ScorerConfig) endsChoices() bool {
	for _, h := range c.Heads {
		for i, a := range h.Choices {
			for k, b := range h.Choices {
				if h.Joint && i != k && strings.HasPrefix(b, a) {
					return true
				}
			}
		}
	}
	return false
}

func (f *OnePassConfig) identity() string {
	text := fmt.Sprintf("%+v", struct { // fixed names and order here too
		Format                  int
		Backbone, Pair          string
		PairSize                []int
		Question, Answer        string
		TextLoss                string
		ScoreRange              [2]float64
		Head                    HeadConfig
		ScoreToken              string
		ScorePosition           string
		DType                   string
		ChatTemplate, EndOfTurn string
	}{
		f.Format, "", f.Pair, f.PairSize, f.Question, f.Answer, f.TextLoss, f.ScoreRange, f.Head, f.ScoreToken,
		f.ScorePosition, f.DType, f.ChatTemplate, f.EndOfTurn,
	})
	if f.Layout != "" { // added after format 2
		text += " Layout:" + f.Layout
	}
	if f.NumberPictures != "" { // added later still
		text += " NumberPictures:" + f.NumberPictures
	}
	if len(f.Members) > 0 { // this too
		text += fmt.Sprint(" Members:", len(f.Members))
	}
	return text
}

// BackboneFingerprint identifies only the backbone.
func (s *Scorer) BackboneFingerprint() (string, error) { return s.net.BackboneFingerprint() }
