package reward

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// flowRequest is a request from Flow-Factory's remote rewards: a prompt and a picture for each sample, and the
// pictures that it was generated from.
type flowRequest struct {
	Prompt          *list[string]               `json:"prompt"`
	Image           *list[*encodedPicture]      `json:"image"`
	Video           jsontext.Value              `json:"video"`
	ConditionImages *list[list[encodedPicture]] `json:"condition_images"`
	ConditionVideos jsontext.Value              `json:"condition_videos"`
}

// check checks that all lists have an element for each sample.
func (q *flowRequest) check() error {
	given := func(raw jsontext.Value) bool { return len(raw) > 0 && string(raw) != "null" }
	switch {
	case given(q.Video) || given(q.ConditionVideos):
		return badRequest("video and condition_videos: videos are not scored")
	case q.Prompt == nil:
		return badRequest("prompt is missing: a list of instructions")
	case q.Image == nil:
		return badRequest("image is missing: a list of pictures")
	case len(*q.Prompt) != len(*q.Image):
		return badRequest("%d prompts for %d images", len(*q.Prompt), len(*q.Image))
	case q.ConditionImages != nil && len(*q.ConditionImages) != len(*q.Image):
		return badRequest("condition_images of %d samples for %d images", len(*q.ConditionImages), len(*q.Image))
	}
	return nil
}

// editInputs returns the edits. For a judge without sources the condition images are dropped.
func (q *flowRequest) editInputs(v *Replicated) (edits []editInput, err error) {
	for i, output := range *q.Image {
		e := editInput{output: output, instruction: (*q.Prompt)[i]}
		if output == nil {
			return nil, badPicture("image %d is missing", i)
		}
		if q.ConditionImages != nil && v.info.Sources != 0 {
			e.sources, _ = sourcesOf("", nil, (*q.ConditionImages)[i])
		}
		if len(e.sources) == 0 && v.info.Sources != 0 {
			return nil, badRequest("image %d: condition_images is empty, and %s compares an edit with its source", i, v.name)
		}
		if err := v.checkSources(len(e.sources)); err != nil {
			return nil, prefixError(fmt.Sprintf("image %d, condition_images", i), err)
		}
		edits = append(edits, e)
	}
	return edits, nil
}

// postFlow answers POST /compute, in the protocol of Flow-Factory's reward servers: a score for each image, on the
// scorer's range.
//
// The client is configured with one URL, and requests /compute and /health below it. So the path names the scorer,
// and the reward of samples that could not be judged: like on_error of /v1/score, but without null, which the client
// cannot read. Errors that a retry would not fix are answered with status 200 and a text in "error", which the client
// raises: after any other status it repeats the request, and does not report the body.
func (s *Server) postFlow(w http.ResponseWriter, r *http.Request) error {
	var q flowRequest
	held, err := s.read(w, r, scoreKind, &q, nil)
	if err != nil {
		return err
	}
	return s.answer(w, r, new(string), held, &q, func(ctx context.Context) (*reply, error) {
		out, err := s.flow(ctx, r, &q)
		if e := toAPIError(err); err == nil || isTemporary(e) || e.RetryAfter > 0 {
			return out, err
		}
		out = &reply{status: http.StatusOK, kind: "application/json"}
		out.body, err = encodeJSON(map[string]string{"error": s.engine.metrics.countError(err).Message})
		return out, err
	})
}

// flow computes the reply to a request.
func (s *Server) flow(ctx context.Context, r *http.Request, q *flowRequest) (*reply, error) {
	p := &scoreRequest{OnError: cmp.Or(r.PathValue("on_error"), "fail")}
	p.Scorer = r.PathValue("scorer")
	asked, err := s.rewardTerms(p)
	switch {
	case err != nil:
		return nil, err
	case p.OnError == "null":
		return nil, badRequest("on_error null: Flow-Factory cannot read null; use fail, nan or mean")
	}
	if err := s.demand(r); err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if err := s.countItems("images", len(*q.Image)); err != nil {
		return nil, err
	}
	edits, err := q.editInputs(asked.judges[0])
	if err != nil {
		return nil, err
	}
	items, byEdit := make([]*item, len(edits)), make([][]*item, len(edits))
	for i, e := range edits {
		items[i] = asked.judges[0].newItem(e)
		byEdit[i] = items[i : i+1]
	}
	if err := s.engine.score(ctx, items); err != nil {
		return nil, err
	}
	a, err := asked.answers(s.engine.metrics, edits, byEdit)
	if err != nil {
		return nil, err
	}
	out := &reply{status: http.StatusOK, kind: "application/json"}
	out.body, err = s.flowRewards(a, a.sums(asked), p.OnError)
	if err != nil {
		return nil, err
	}
	_, out.prints, err = identities(asked.judges)
	return out, err
}

// flowRewards returns the JSON of rewards. NaN is a literal, as in Python's json.
func (s *Server) flowRewards(a *answers, totals []total, onError string) ([]byte, error) {
	parts := make([][]byte, len(totals))
	for i, t := range totals {
		if err := a.cells[0][i].err; err != nil {
			s.engine.metrics.countError(err)
			if math.IsNaN(t.value) && onError == "mean" {
				return nil, prefixError(fmt.Sprintf("image %d, in a group (same prompt and condition_images) of which no image "+
					"could be judged", i), err)
			}
		}
		parts[i] = []byte("NaN")
		if !math.IsNaN(t.value) {
			number, err := encodeJSON(t.value)
			if err != nil {
				return nil, err
			}
			parts[i] = bytes.TrimSpace(number)
		}
	}
	return encodeList(parts, `{"rewards":`, "}"), nil
}

// flowHealth answers GET /health below a base path that names a scorer.
func (s *Server) flowHealth(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.engine.scorers.find(r.PathValue("scorer")); err != nil {
		return err
	}
	return s.health(w, r)
}

// flowRoutes returns the routes of Flow-Factory's protocol, below a base path for each scorer and each on_error.
func (s *Server) flowRoutes() (routes []route) {
	routes = []route{{"POST", "/compute", s.postFlow}}
	for _, base := range []string{"/flow-factory/{scorer}", "/flow-factory/{scorer}/{on_error}"} {
		routes = append(routes, route{"POST", base + "/compute", s.postFlow}, route{"GET", base + "/health", s.flowHealth})
	}
	return routes
}
