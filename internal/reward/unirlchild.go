package reward

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
)

// unirlVersion is the version of UniRL's protocol. Version 1 has identities; earlier clients neither send nor read
// them.
const unirlVersion = "1"

// unirlIdentity is the identity of a request that UniRL's client sends, and expects back in the answer.
type unirlIdentity struct {
	RequestID      jsontext.Value `json:"request_id"`
	SampleID       jsontext.Value `json:"sample_id"`
	GroupID        jsontext.Value `json:"group_id"`
	SourceRank     jsontext.Value `json:"source_rank"`
	PolicyVersion  jsontext.Value `json:"policy_version"`
	IdempotencyKey jsontext.Value `json:"idempotency_key"`
}

// unirlID returns the id of a call. It is built from the idempotency keys of its requests, which are the same in a
// retry, and from the rank that sends them, because ranks with the same sample have equal keys. It is "" if a request
// has no key.
func unirlID(requests []unirlRequest) string {
	h := sha256.New()
	for _, q := range requests {
		if len(q.IdempotencyKey) < 3 || q.IdempotencyKey[0] != '"' { // null, or an empty string
			return ""
		}
		fmt.Fprintf(h, "%s %s,", q.IdempotencyKey, q.SourceRank)
	}
	if len(requests) == 0 {
		return ""
	}
	return "unirl-" + hex.EncodeToString(h.Sum(nil))
}

// unirlEcho returns the identity of each request, with the fingerprint of its first judge as the scorer's version.
func unirlEcho(requests []unirlRequest, scorers *scorerSet) ([]map[string]any, error) {
	echo := make([]map[string]any, len(requests))
	for i, q := range requests {
		one := map[string]any{"scorer_version": nil}
		for name, value := range map[string]jsontext.Value{"request_id": q.RequestID, "sample_id": q.SampleID,
			"group_id": q.GroupID, "source_rank": q.SourceRank, "policy_version": q.PolicyVersion,
			"idempotency_key": q.IdempotencyKey} {
			if one[name] = nil; len(value) > 0 {
				one[name] = jsonText(value)
			}
		}
		if len(q.Required) > 0 {
			if v, err := scorers.find(q.Required[0]); err == nil {
				if one["scorer_version"], err = v.Fingerprint(); err != nil {
					return nil, err
				}
			}
		}
		echo[i] = one
	}
	return echo, nil
}

// jsonText is JSON that is copied to an answer as received.
type jsonText []byte

// MarshalJSON returns the text.
func (t jsonText) MarshalJSON() ([]byte, error) { return t, nil }

// childPrint is the fingerprint of the first scorer, once it is known: /health must not wait for it.
type childPrint struct {
	once  sync.Once
	known atomic.Pointer[string]
}

// describeChild adds what UniRL requires from a reward server that it started itself (clients/python's
// unirl_service): the server is ready when its state is resident or offloaded.
func (s *Server) describeChild(health map[string]any) {
	if len(s.engine.scorers.names) == 0 {
		return
	}
	s.child.once.Do(func() {
		v := s.engine.scorers.all()[0]
		go func() {
			if print, err := v.Fingerprint(); err == nil {
				s.child.known.Store(&print)
			}
		}()
	})
	_, stay := s.engine.scorers.sleepers(&s.o)
	scorer := map[string]any{"input_kind": "image", "supports_offload": len(stay) == 0}
	if health["state"] = "loading"; s.child.known.Load() != nil {
		health["state"], scorer["version"] = s.childState(), *s.child.known.Load()
	}
	health["scorer"] = scorer
}

func (s *Server) childState() string {
	if s.engine.gate.Asleep() {
		return "offloaded"
	}
	return "resident"
}

// lifecycle answers POST /lifecycle/{action}: UniRL's names for sleep and wake. Its shutdown is followed by SIGTERM,
// which stops the server.
func (s *Server) lifecycle(w http.ResponseWriter, r *http.Request) error {
	_, stay := s.engine.scorers.sleepers(&s.o)
	var err error
	switch action := r.PathValue("action"); {
	case action == "onload":
		err = s.engine.wake()
	case action == "offload" && len(stay) > 0:
		err = apiErrorf(http.StatusConflict, "asleep", "%s has no weights to unload", stay[0])
	case action == "offload":
		err = s.engine.gate.Close(r.Context())
	case action != "drain" && action != "shutdown":
		err = badRequest("unknown action %q: want onload, offload, drain or shutdown", action)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "state": s.childState()})
}
