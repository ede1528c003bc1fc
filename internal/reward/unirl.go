package reward

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"assay/edit"
)

// turn is half of an edit in UniRL's format: an edit is a history of two turns, (instruction, source) and
// (instruction, edited picture). A picture generated from text is one turn, for scorers without a source.
type turn struct {
	Text      string          `json:"text"`
	Image     *encodedPicture `json:"image_b64"`
	Video     jsontext.Value  `json:"video_b64"`
	VideoPath jsontext.Value  `json:"video_path"`
}

type unirlRequest struct {
	unirlIdentity
	History  list[turn]   `json:"history"`
	Required list[string] `json:"required_rewards"`
}

// editInput returns the edit of a request. A history of one turn has no source. A history of more than two has
// several, and all turns must have the same text: otherwise it would be a chain of edits.
func (q *unirlRequest) editInput() (e editInput, err error) {
	given := func(raw jsontext.Value) bool { return len(raw) > 0 && string(raw) != "null" }
	if len(q.History) == 0 {
		return e, badRequest("%s, not of 0", twoTurns)
	}
	for i, t := range q.History {
		if given(t.Video) || given(t.VideoPath) {
			return e, badRequest("turn %d: videos are not scored", i)
		}
		if t.Image == nil {
			return e, badRequest("turn %d: image_b64 is missing", i)
		}
		switch {
		case e.instruction == "":
			e.instruction = t.Text
		case len(q.History) > 2 && t.Text != "" && t.Text != e.instruction:
			return e, badRequest("turn %d has a different text: a history of more than two turns is an edit "+
				"of several sources, with one instruction", i)
		}
		if e.output != nil {
			e.sources = append(e.sources, e.output)
		}
		e.output = t.Image
	}
	return e, checkInstruction(e.instruction)
}

const twoTurns = "an edit is a history of two turns, (instruction, source) and (instruction, edited picture)"

// newItem returns an item for this scorer. Scorers without a source get the output instead, so that requests need no
// source.
func (v *Replicated) newItem(e editInput) *item {
	if len(e.sources) == 0 && v.info.Sources == 0 {
		e.sources = []*encodedPicture{e.output}
	}
	return &item{scorer: v, sources: e.sources, output: e.output, instruction: e.instruction}
}

// checkSources returns an error if an edit has more sources than the scorer uses.
func (v *Replicated) checkSources(sources int) error {
	if most := max(v.info.Sources, 1); v.info.Sources != edit.Any && sources > most {
		return apiErrorf(http.StatusUnprocessableEntity, "bad_pair", "the edit has %d sources, and %s looks at %d", sources,
			v.name, most)
	}
	return nil
}

// postUniRL answers POST /score, in the protocol of UniRL's reward service. A failed reward is not in the results but
// in errors.
func (s *Server) postUniRL(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Version  string              `json:"protocol_version"` // "": a client from before there were versions
		Requests *list[unirlRequest] `json:"requests"`
	}
	held, err := s.read(w, r, scoreKind, &body, nil)
	if err != nil {
		return err
	}
	if body.Version != "" && body.Version != unirlVersion {
		held.release()
		return apiErrorf(http.StatusBadRequest, "bad_request", "protocol_version %q: want %s", body.Version, unirlVersion)
	}
	if body.Requests == nil {
		held.release()
		return badRequest("requests is missing: a list, in UniRL's format; source, instruction and edits go to /v1/score")
	}
	requests := *body.Requests
	held.shrink(shareBytes(requests))
	id := unirlID(requests)
	return s.answer(w, r, &id, held, requests, func(ctx context.Context) (*reply, error) {
		return s.unirl(ctx, r, requests)
	})
}

// unirlScorer returns the scorer of a requested reward, or an error if it does not support the edit's number of
// sources.
func (s *Server) unirlScorer(name string, edit editInput, turns int) (*Replicated, error) {
	if name == "" {
		return nil, errors.New("a reward without a name")
	}
	v, err := s.engine.scorers.find(name)
	switch {
	case err != nil:
		return nil, err
	case len(edit.sources) == 0 && v.info.Sources != 0:
		return nil, badRequest("%s compares with a source: %s, not of 1", v.name, twoTurns)
	case v.checkSources(len(edit.sources)) != nil:
		return nil, badRequest("%s looks at one source: %s, not of %d", v.name, twoTurns, turns)
	}
	return v, nil
}

// unirl computes the reply to requests in UniRL's protocol.
func (s *Server) unirl(ctx context.Context, r *http.Request, requests []unirlRequest) (*reply, error) {
	if err := s.demand(r); err != nil {
		return nil, err
	}
	results := make([]map[string]map[string]float64, len(requests))
	errs := make([]map[string]string, len(requests))
	request := map[*item]int{} // index of an item's request
	var items []*item
	var judges []*Replicated
	asked := 0
	for i, q := range requests {
		if asked += len(q.Required); asked > s.o.MaxItems {
			return nil, s.countItems("requested rewards", asked)
		}
		results[i], errs[i] = map[string]map[string]float64{}, map[string]string{}
		edit, err := q.editInput()
		for _, name := range q.Required {
			v, e := s.unirlScorer(name, edit, len(q.History))
			if err != nil {
				e = err
			}
			if e != nil {
				errs[i][name] = e.Error()
				continue
			}
			it := v.newItem(edit)
			items, request[it] = append(items, it), i
			if !slices.Contains(judges, v) {
				judges = append(judges, v)
			}
		}
	}
	if err := s.engine.score(ctx, items); err != nil {
		return nil, err
	}
	out := &reply{status: http.StatusOK, kind: "application/json"}
	for _, it := range items {
		i, name := request[it], it.scorer.name
		if it.err == nil {
			if it.err = checkScore(name, &it.score); it.err != nil {
				s.engine.metrics.failure(it.scorer, 1, it.err)
			}
		}
		if it.err != nil {
			e := s.engine.metrics.countError(it.err)
			errs[i][name], out.temporary = e.Message, out.temporary || isTemporary(e)
			continue
		}
		results[i][name] = map[string]float64{"score": it.score.Value}
	}
	if e := away(items); e != nil { // UniRL asks again; a missing reward would end its step
		out.status, out.again = e.Status, e.RetryAfter
	}
	var err error
	if _, out.prints, err = identities(judges); err != nil {
		return nil, err
	}
	echo, err := unirlEcho(requests, s.engine.scorers)
	if err != nil {
		return nil, err
	}
	out.body, err = encodeJSON(map[string]any{"results": results, "errors": errs, "identities": echo,
		"protocol_version": unirlVersion})
	return out, err
}

// shareBytes makes equal pictures share their bytes, such as the sources of a rank's edits, and returns the bytes in
// use.
func shareBytes(requests []unirlRequest) (left int64) {
	seen := map[[sha256.Size]byte][]byte{}
	for _, q := range requests {
		left += 256
		for _, t := range q.History {
			left += 256 + int64(len(t.Text)+len(t.Video)+len(t.VideoPath))
			if t.Image == nil {
				continue
			}
			digest := t.Image.sum()
			if seen[digest] == nil {
				seen[digest] = t.Image.raw
				left += int64(len(t.Image.raw))
			}
			t.Image.raw = seen[digest]
		}
	}
	return left
}

// rewards lists the names of the scorers.
func (s *Server) rewards(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]any{"rewards": s.engine.scorers.names})
}

// health reports that the server is ready, until it drains.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	draining := s.front.draining.Load()
	ready := map[string][]bool{}
	for _, name := range s.engine.scorers.names {
		ready[name] = []bool{!draining}
	}
	if draining {
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "draining", "rewards": ready})
		return answeredError(http.StatusServiceUnavailable)
	}
	v := map[string]any{"status": "ok", "rewards": ready}
	if s.engine.gate.Asleep() {
		v["asleep"] = true
	}
	s.describeChild(v)
	return writeJSON(w, http.StatusOK, v)
}
