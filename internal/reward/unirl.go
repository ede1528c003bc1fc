package reward

import (
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// turn is half of an edit in UniRL's format: an edit is a history of two turns, (instruction, source) and
// (instruction, edited picture). A picture made from a text is one turn, for scorers without a source.
type turn struct {
	Text      string          `json:"text"`
	Image     *encodedPicture `json:"image_b64"`
	Video     jsontext.Value  `json:"video_b64"`
	VideoPath jsontext.Value  `json:"video_path"`
}

type unirlRequest struct {
	History  list[turn]   `json:"history"`
	Required list[string] `json:"required_rewards"`
}

// edit returns the edit of a request. source is nil in a history of one turn.
func (q *unirlRequest) edit() (source, edit *encodedPicture, instruction string, err error) {
	given := func(raw jsontext.Value) bool { return len(raw) > 0 && string(raw) != "null" }
	if len(q.History) != 1 && len(q.History) != 2 {
		return nil, nil, "", badRequest("an edit is a history of two turns, (instruction, source) and "+
			"(instruction, edited picture), not of %d", len(q.History))
	}
	for i, t := range q.History {
		if given(t.Video) || given(t.VideoPath) {
			return nil, nil, "", badRequest("turn %d: videos are not scored", i)
		}
		if t.Image == nil {
			return nil, nil, "", badRequest("turn %d: image_b64 is missing", i)
		}
		if instruction == "" {
			instruction = t.Text
		}
		source, edit = edit, t.Image
	}
	return source, edit, instruction, checkInstruction(instruction)
}

// item is the item of a scorer and an edit. Scorers without a source may lack it.
func (v *Replicated) item(source, output *encodedPicture, instruction string) (*item, error) {
	if source == nil && v.info.Sources != 0 {
		return nil, badRequest("%s compares with a source: an edit is a "+
			"history of two turns, (instruction, source) and (instruction, edited picture), not of 1", v.name)
	}
	if source == nil {
		source = output
	}
	return &item{scorer: v, source: source, output: output, instruction: instruction}, nil
}

// postUniRL answers POST /score, in the protocol of UniRL's reward service. A reward that fails is left out of the
// results and listed in errors.
func (s *Server) postUniRL(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Requests *list[unirlRequest] `json:"requests"`
	}
	held, err := s.read(w, r, scoreKind, &body, nil)
	if err != nil {
		return err
	}
	defer held.release()
	if body.Requests == nil {
		return badRequest("requests is missing: a list, in UniRL's format; source, instruction and edits go to /v1/score")
	}
	requests := *body.Requests
	held.shrink(shareBytes(requests))
	results := make([]map[string]map[string]float64, len(requests))
	errs := make([]map[string]string, len(requests))
	request := map[*item]int{} // that an item belongs to
	var items []*item
	asked := 0
	for i, q := range requests {
		if asked += len(q.Required); asked > s.o.MaxItems {
			return s.countItems("requested rewards", asked)
		}
		results[i], errs[i] = map[string]map[string]float64{}, map[string]string{}
		source, edit, instruction, err := q.edit()
		for _, name := range q.Required {
			v, e := s.engine.scorers.find(name)
			if name == "" {
				e = fmt.Errorf("a reward without a name")
			}
			if err != nil {
				e = err
			}
			var it *item
			if e == nil {
				it, e = v.item(source, edit, instruction)
			}
			if e != nil {
				errs[i][name] = e.Error()
				continue
			}
			items, request[it] = append(items, it), i
		}
	}
	if err := s.engine.score(r.Context(), items); err != nil {
		return err
	}
	for _, it := range items {
		i, name := request[it], it.scorer.name
		if it.err != nil {
			errs[i][name] = s.engine.metrics.countError(it.err).Message
			continue
		}
		results[i][name] = map[string]float64{"score": it.score.Value}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"results": results, "errors": errs})
}

// shareBytes makes equal pictures share their bytes, as the sources of a rank's edits do, and returns the bytes in
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
			digest := sha256.Sum256(t.Image.raw)
			if seen[digest] == nil {
				seen[digest] = t.Image.raw
				left += int64(len(t.Image.raw))
			}
			t.Image.raw = seen[digest]
		}
	}
	return left
}

// rewards lists the scorers' names.
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
		return writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "draining", "rewards": ready})
	}
	return writeJSON(w, http.StatusOK, map[string]any{"status": "ok", "rewards": ready})
}
