package reward

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

// editsRequest has the common fields of requests to /v1/score and /v1/gradient, JSON with base64 pictures or a form
// with files: edits of one source and instruction, or pairs with their own.
type editsRequest struct {
	ID          string               `json:"id"`
	Scorer      string               `json:"scorer"`
	Fingerprint string               `json:"fingerprint"` // that the scorer must have; "": any
	Source      *encodedPicture      `json:"source"`
	Sources     list[encodedPicture] `json:"sources"` // several sources, instead of Source
	Instruction string               `json:"instruction"`
	Edits       list[encodedPicture] `json:"edits"`
	Pairs       list[pairRequest]    `json:"pairs"`
}

// pairRequest is one pair of an editsRequest.
type pairRequest struct {
	Source      *encodedPicture      `json:"source"`
	Sources     list[encodedPicture] `json:"sources"`
	Instruction string               `json:"instruction"`
	Edit        *encodedPicture      `json:"edit"`
	Group       string               `json:"group"` // "": grouped with all pairs of the same sources and instruction
}

// scoreRequest is a request to /v1/score.
type scoreRequest struct {
	editsRequest
	Rewards list[rewardRequest] `json:"rewards"` // instead of Scorer
	Combine string              `json:"combine"` // a [combine.Rule], or lower_bound; "": none
	Penalty *float64            `json:"penalty"` // of lower_bound; nil: 1
	OnError string              `json:"on_error"`
}

// rewardRequest is one of several scorers of a request.
type rewardRequest struct {
	Name        string   `json:"name"`
	Weight      *float64 `json:"weight"`    // in the sum; nil: 1
	Dimension   string   `json:"dimension"` // instead of the score
	Scale       string   `json:"scale"`     // its own [combine.Rule]; "": from Combine
	Fingerprint string   `json:"fingerprint"`
}

// editInput is an edit of a request.
type editInput struct {
	sources     []*encodedPicture
	output      *encodedPicture
	instruction string
	group       string
}

// sourcesOf returns the sources of an edit, given as one or as several.
func sourcesOf(where string, one *encodedPicture, several list[encodedPicture]) (out []*encodedPicture, err error) {
	switch {
	case one != nil && len(several) > 0:
		return nil, apiErrorf(http.StatusBadRequest, "bad_request", "%ssource and sources: give only one of them", where)
	case one != nil:
		return []*encodedPicture{one}, nil
	}
	for i := range several {
		out = append(out, &several[i])
	}
	return out, nil
}

// editInputs returns the request's pairs or, without any, its edits with their common sources.
func (p *editsRequest) editInputs() (edits []editInput, err error) {
	sources, err := sourcesOf("", p.Source, p.Sources)
	if err != nil {
		return nil, err
	}
	if len(p.Pairs) == 0 {
		for i := range p.Edits {
			edits = append(edits, editInput{sources: sources, output: &p.Edits[i], instruction: p.Instruction})
		}
		return edits, nil
	}
	if len(sources) > 0 || len(p.Edits) > 0 || p.Instruction != "" {
		return nil, badRequest("pairs have their own sources, instructions and " +
			"edits: source, instruction, edit and edits do not go with them")
	}
	for i, one := range p.Pairs {
		if one.Edit == nil {
			return nil, badRequest("pairs/%d: edit is missing: one picture", i)
		}
		if sources, err = sourcesOf(fmt.Sprintf("pairs/%d: ", i), one.Source, one.Sources); err != nil {
			return nil, err
		}
		edits = append(edits, editInput{sources, one.Edit, one.Instruction, one.Group})
	}
	return edits, nil
}

func (p *editsRequest) field(name string, value []byte) (err error) {
	switch name {
	case "id":
		p.ID, err = formText(name, value)
	case "scorer":
		p.Scorer, err = formText(name, value)
	case "fingerprint":
		p.Fingerprint, err = formText(name, value)
	case "instruction":
		p.Instruction, err = formText(name, value)
	case "source":
		p.Source = &encodedPicture{raw: value}
	case "sources":
		p.Sources = append(p.Sources, encodedPicture{raw: value})
	case "edits":
		p.Edits = append(p.Edits, encodedPicture{raw: value})
	default:
		err = badRequest("unknown field %q", name)
	}
	return err
}

func (p *scoreRequest) field(name string, value []byte) (err error) {
	switch name {
	case "combine":
		p.Combine, err = formText(name, value)
	case "penalty":
		if err = json.Unmarshal(value, &p.Penalty); err != nil {
			err = prefixError("penalty", bodyError(err))
		}
	case "on_error":
		p.OnError, err = formText(name, value)
	case "rewards":
		if err = json.Unmarshal(value, &p.Rewards, json.RejectUnknownMembers(true)); err != nil {
			err = prefixError("rewards", bodyError(err))
		}
	default:
		err = p.editsRequest.field(name, value)
	}
	return err
}

// postScore answers POST /v1/score. If no edit could be scored, the response has the status of the first error. If one
// of the judges does not answer at the moment, it is 503, with what the others returned.
func (s *Server) postScore(w http.ResponseWriter, r *http.Request) error {
	var p scoreRequest
	held, err := s.read(w, r, scoreKind, &p, p.field)
	if err != nil {
		return err
	}
	return s.answer(w, r, &p.ID, held, &p, func(ctx context.Context) (*reply, error) { return s.score(ctx, r, &p) })
}

// score computes the reply to a request.
func (s *Server) score(ctx context.Context, r *http.Request, p *scoreRequest) (*reply, error) {
	if err := s.countItems("edits", max(len(p.Edits), len(p.Pairs))); err != nil {
		return nil, err
	}
	asked, err := s.rewardTerms(p)
	if err != nil {
		return nil, err
	}
	if err := s.demand(r); err != nil {
		return nil, err
	}
	edits, err := p.editInputs()
	if err == nil && len(p.Pairs) == 0 {
		if _, err = s.engine.decoder.check(edits[0].sources, p.Instruction, asked.needSources()); err != nil {
			s.engine.metrics.refused(asked.judges, len(edits), err)
		}
	}
	if err != nil {
		return nil, err
	}
	var items []*item
	byEdit := make([][]*item, len(edits))
	for i, e := range edits {
		for _, v := range asked.judges {
			byEdit[i] = append(byEdit[i], v.newItem(e))
		}
		items = append(items, byEdit[i]...)
	}
	if err := s.engine.score(ctx, items); err != nil {
		return nil, err
	}
	return s.scoreReply(p, asked, edits, byEdit)
}

// scoreReply encodes a score or an error for each edit, and the sum if requested.
func (s *Server) scoreReply(p *scoreRequest, asked *rewardTerms, edits []editInput, byEdit [][]*item) (*reply, error) {
	head := map[string]any{}
	if len(p.Rewards) == 0 {
		head["scorer"], head["score_range"] = asked.judges[0].name, asked.judges[0].info.Range
	}
	a, err := asked.answers(s.engine.metrics, edits, byEdit)
	if err != nil {
		return nil, err
	}
	sums := a.sums(asked)
	results, out := make([][]byte, len(edits)), &reply{}
	scored, again := false, time.Duration(0)
	for i := range edits {
		var parts [][]byte
		counted := map[int]bool{} // judges whose error on this edit is counted
		for k, q := range asked.list {
			one := a.cells[k][i]
			if one.err != nil {
				e := toAPIError(one.err)
				if !counted[q.judge] {
					counted[q.judge] = true
					s.engine.metrics.countError(e)
				}
				out.temporary = out.temporary || isTemporary(e)
				if out.status == 0 {
					out.status, again = e.Status, e.RetryAfter
				}
			}
			scored = scored || one.err == nil
			part, err := one.encode(q, len(p.Rewards) > 0)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
		if len(p.Rewards) > 0 {
			results[i] = encodeList(parts, `{"rewards":`, `}`)
		} else {
			results[i] = parts[0]
		}
		if sums != nil {
			results[i] = joinObjects(results[i], sums[i].encode(asked.onError))
		}
	}
	if scored {
		out.status, again = http.StatusOK, 0
	}
	if e := away(slices.Concat(byEdit...)); e != nil {
		out.status, again = e.Status, e.RetryAfter
	}
	out.again = again
	return out, s.encodeScores(out, asked.judges, p.ID, head, results)
}

// encodeScores completes a reply: the identity of request, server and judges, and the results.
func (s *Server) encodeScores(
	out *reply, judges []*Replicated, id string, head map[string]any, results [][]byte,
) (err error) {
	if head["judges"], out.prints, err = identities(judges); err != nil {
		return err
	}
	head["version"] = serverVersion
	if id != "" {
		head["id"] = id
	}
	raw, err := encodeJSON(head)
	if err != nil {
		return err
	}
	out.kind = "application/json"
	out.body = append(joinObjects(raw[:len(raw)-1], encodeList(results, `{"results":`, `}`)), '\n')
	return nil
}

// limits sends the limits of one request, so that clients can split larger ones.
func (s *Server) limits(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]any{"max_body": s.o.MaxBody, "max_items": s.o.MaxItems,
		"max_pixels": s.engine.decoder.limits.MaxPixels, "max_gradients": maxAnswerBytes, "max_sources": maxSources,
		"max_rewards": maxRewards})
}
