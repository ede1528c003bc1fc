package reward

import (
	"crypto/sha256"
	"math"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// flowRequest is a request of Flow-Factory's remote rewards: a prompt and a picture for each sample, and the pictures
// that it was made from.
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

// items returns an item for each sample. A sample that the scorer cannot judge has its error.
func (q *flowRequest) items(v *Replicated) []*item {
	items := make([]*item, len(*q.Image))
	for i, output := range *q.Image {
		var sources []encodedPicture
		if q.ConditionImages != nil {
			sources = (*q.ConditionImages)[i]
		}
		items[i] = v.flowItem(sources, output, (*q.Prompt)[i])
	}
	return items
}

func (v *Replicated) flowItem(sources []encodedPicture, output *encodedPicture, instruction string) *item {
	it := &item{scorer: v, output: output, instruction: instruction}
	switch {
	case output == nil:
		it.err = badPicture("the image is missing")
	case v.info.Sources == 0: // what it was made from does not matter to it
		it.source = output
	case len(sources) == 0:
		it.err = badRequest("condition_images is empty: %s compares an edit with its source", v.name)
	case len(sources) > 1:
		it.err = badRequest("%d condition_images: %s looks at %d source", len(sources), v.name, v.info.Sources)
	default:
		it.source = &sources[0]
	}
	return it
}

// postFlow answers POST /compute, in the protocol of Flow-Factory's reward servers: a score for each image, on the
// scorer's range.
//
// The client gives one URL, below which it asks for /compute and /health. So the path names the scorer, and what a
// sample that could not be judged becomes: see [flowRewards]. Errors that another attempt would not mend are answered
// with status 200 and a text in "error": the client raises it, while it repeats any request that another status
// answers, and tells nobody of the body.
func (s *Server) postFlow(w http.ResponseWriter, r *http.Request) error {
	var q flowRequest
	held, err := s.read(w, r, scoreKind, &q, nil)
	if err != nil {
		return err
	}
	defer held.release()
	rewards, err := s.flowRewards(r, &q)
	if err != nil {
		return s.flowError(w, err)
	}
	return write(w, http.StatusOK, "application/json", flowAnswer(rewards))
}

// flowRewards are the scores of the samples. One that could not be judged fails the request, unless the path has
// another word: with nan its reward is NaN, with mean that of the other samples of its prompt and condition images.
func (s *Server) flowRewards(r *http.Request, q *flowRequest) ([]float64, error) {
	onError := r.PathValue("on_error")
	switch onError {
	case "", "fail", "nan", "mean":
	default:
		return nil, badRequest("%q in the path: fail, nan and mean say what a failure becomes", onError)
	}
	v, err := s.engine.scorers.find(r.PathValue("scorer"))
	if err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if err := s.countItems("images", len(*q.Image)); err != nil {
		return nil, err
	}
	items := q.items(v)
	if err := s.engine.score(r.Context(), items); err != nil {
		return nil, err
	}
	rewards := make([]float64, len(items))
	for i, it := range items {
		switch {
		case it.err == nil:
			rewards[i] = it.score.Value
		case onError == "" || onError == "fail" || toAPIError(it.err).RetryAfter > 0:
			return nil, prefixError("image "+strconv.Itoa(i), it.err)
		default:
			s.engine.metrics.countError(it.err)
			rewards[i] = math.NaN()
		}
	}
	if onError == "mean" {
		err = q.impute(rewards)
	}
	return rewards, err
}

// impute replaces each NaN by the mean of the other rewards of its prompt and condition images.
func (q *flowRequest) impute(rewards []float64) error {
	type group struct {
		prompt  string
		sources [sha256.Size]byte
	}
	of := make([]group, len(rewards))
	sum, n := map[group]float64{}, map[group]float64{}
	for i, reward := range rewards {
		of[i].prompt = (*q.Prompt)[i]
		if q.ConditionImages != nil {
			h := sha256.New()
			for _, p := range (*q.ConditionImages)[i] {
				digest := sha256.Sum256(p.raw)
				h.Write(digest[:])
			}
			h.Sum(of[i].sources[:0])
		}
		if !math.IsNaN(reward) {
			sum[of[i]] += reward
			n[of[i]]++
		}
	}
	for i, reward := range rewards {
		if !math.IsNaN(reward) {
			continue
		}
		if n[of[i]] == 0 {
			return apiErrorf(http.StatusUnprocessableEntity, "no_score",
				"image %d could not be judged, and no other one of its prompt and condition images was: there is no mean", i)
		}
		rewards[i] = sum[of[i]] / n[of[i]]
	}
	return nil
}

// flowError answers with an error: as a text with status 200, or by its status if the client shall ask again.
func (s *Server) flowError(w http.ResponseWriter, err error) error {
	e := toAPIError(err)
	if e.RetryAfter > 0 {
		return err
	}
	s.engine.metrics.countError(err)
	if err := writeJSON(w, http.StatusOK, map[string]string{"error": e.Message}); err != nil {
		return err
	}
	return answeredError(e.Status)
}

// flowAnswer is the JSON of rewards. NaN is a literal, as Python's json writes and reads it.
func flowAnswer(rewards []float64) []byte {
	out := []byte(`{"rewards":[`)
	for i, reward := range rewards {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(reward) {
			out = append(out, "NaN"...)
			continue
		}
		number, _ := encodeJSON(reward)
		out = append(out, number[:len(number)-1]...)
	}
	return append(out, "]}\n"...)
}

// flowHealth answers the GET /health of a base path that names a scorer.
func (s *Server) flowHealth(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.engine.scorers.find(r.PathValue("scorer")); err != nil {
		return err
	}
	return s.health(w, r)
}

// flowRoutes are the paths of Flow-Factory's protocol, below a base for each scorer and for each treatment of failures.
func (s *Server) flowRoutes() (routes []route) {
	routes = []route{{"POST", "/compute", s.postFlow}}
	for _, base := range []string{"/flow-factory/{scorer}", "/flow-factory/{scorer}/{on_error}"} {
		routes = append(routes, route{"POST", base + "/compute", s.postFlow}, route{"GET", base + "/health", s.flowHealth})
	}
	return routes
}
