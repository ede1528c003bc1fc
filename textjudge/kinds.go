package textjudge

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/chat"
	"assay/edit"
)

// asked reports whether a question is asked about edits of a kind.
func (q *Question) asked(kind string) bool {
	return len(q.Kinds) == 0 || slices.Contains(q.Kinds, kind)
}

// kinds returns the kinds of edits that a question is asked about.
func (q *Question) kinds(c *Config) []string {
	if len(q.Kinds) > 0 {
		return q.Kinds
	}
	return c.Kinds
}

// checkQuestions checks all questions and returns the names of the numbers in their answers. In judges that ask by
// kind, two questions may share a number's name if no kind is asked both.
func (c *Config) checkQuestions(problem func(key, format string, args ...any)) map[string]bool {
	kinds := c.Kinds
	if len(kinds) == 0 {
		kinds = []string{""}
	}
	all, known, asked := map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}
	for _, kind := range kinds {
		known[kind] = map[string]bool{}
	}
	for i := range c.Questions {
		q, key := &c.Questions[i], fmt.Sprintf("questions[%d]", i)
		taken := map[string]bool{}
		for _, kind := range kinds {
			if q.asked(kind) {
				asked[kind] = true
				maps.Copy(taken, known[kind])
			}
		}
		for _, kind := range q.Kinds {
			if !slices.Contains(c.Kinds, kind) {
				problem(key+".kinds", "%q: want one of the judge's kinds (%s)", kind, strings.Join(c.Kinds, ", "))
			}
		}
		own := c.checkQuestion(key, q, taken, problem)
		for _, n := range own {
			all[n] = true
			for _, kind := range kinds {
				if q.asked(kind) {
					known[kind][n] = true
				}
			}
		}
	}
	for _, kind := range c.Kinds {
		if !asked[kind] {
			problem("kinds", "%q: no question is asked about this kind", kind)
		}
	}
	return all
}

// shown returns the roles of the pictures that the questions about an edit of a kind show.
func (j *Judge) shown(kind string) (roles []string, err error) {
	if c := &j.Config; len(c.Kinds) > 0 && !slices.Contains(c.Kinds, kind) {
		return nil, fmt.Errorf("%w: the judge %s asks by the kind of the edit, and %q is not one of %s", chat.ErrRequest,
			c.Name, kind, strings.Join(c.Kinds, ", "))
	}
	for i := range j.Config.Questions {
		q := &j.Config.Questions[i]
		for _, p := range q.Pictures {
			if q.asked(kind) && !isFile(p) && !slices.Contains(roles, p) {
				roles = append(roles, p)
			}
		}
	}
	return roles, nil
}

// byKind reads the published prompts of several kinds of edits from a JSON file.
func (r *Released) byKind(copied string, kinds []string) (*prompt, error) {
	raw, err := os.ReadFile(filepath.Join(copied, filepath.FromSlash(r.File)))
	if err != nil {
		return nil, err
	}
	var texts map[string]string
	if err := json.Unmarshal(raw, &texts); err != nil {
		return nil, fmt.Errorf("%s: %w: expected {KIND: TEXT}", r.File, err)
	}
	prompts := map[string]*prompt{}
	all := &prompt{render: func(e *edit.Edit) (string, error) { return prompts[e.Kind].render(e) }}
	for _, kind := range kinds {
		if texts[kind] == "" {
			return nil, fmt.Errorf("%s has no prompt for %q", r.File, kind)
		}
		p, err := r.fill(texts[kind], r.ByKind[kind])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		prompts[kind] = p
		all.texts += p.texts
		for _, text := range p.altered {
			all.altered = append(all.altered, kind+": "+text)
		}
		all.source += kind + "\n" + p.source + "\n"
	}
	return all, nil
}

// checkFrames refuses a question of an odd number of pictures in a row, if every two pictures are the frames of one.
func (c *Config) checkFrames() error {
	for i := range c.Questions {
		q, row := &c.Questions[i], 0
		if slices.Contains(q.Pictures, allSources) { // the edit decides how many they are
			continue
		}
		for k := range q.Pictures {
			if len(q.Captions) > 0 && q.Captions[k] != "" { // a text ends a row
				if row%2 != 0 {
					break
				}
				row = 0
			}
			row++
		}
		if row%2 != 0 {
			return fmt.Errorf("question %s shows %d pictures in a row, and the model shows every two as the frames of one: "+
				"show it pictures one by one (--pictures sequence)", q.Name, row)
		}
	}
	return nil
}
