package encoders

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gorgonia.org/tensor"

	"assay/internal/tokens"
)

// textTower is CLIP's text side.
type textTower struct {
	tower
	*tokenizer
	end    func(ids []int64) (int, error) // finds the end token; nil: the graph finds it itself
	length int                            // the only length that the graph takes; 0: any
	mask   string                         // name of the attention mask input; "": none
}

// limit is the maximum number of tokens of a text, 0 without a text tower.
func (t *textTower) limit() int {
	if t == nil {
		return 0
	}
	return t.most
}

// Close frees the session and the tokenizer.
func (t *textTower) Close() error {
	var errs []error
	if t.Session != nil {
		errs = append(errs, t.Session.Close())
	}
	if t.tokenizer != nil {
		errs = append(errs, t.tokenizer.Close())
	}
	return errors.Join(errs...)
}

// Texts implements Encoder. Texts are truncated to the tower's length, keeping the end token.
func (m *Model) Texts(ctx context.Context, texts []string) ([][]float32, error) {
	return whole(m.read(ctx, texts))
}

// read embeds texts; problems[i] is the reason why text i has no tokens, err aborts everything.
func (m *Model) read(ctx context.Context, texts []string) (out [][]float32, problems []error, err error) {
	if m.texts == nil {
		return nil, nil, fmt.Errorf("encoder %s: %w", m.path, ErrNoTexts)
	}
	ids, problems := make([][]int64, len(texts)), make([]error, len(texts))
	var order []int
	for i, text := range texts {
		if ids[i], problems[i] = m.texts.encode(text); problems[i] == nil {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(ids[a]), len(ids[b])) })
	out = make([][]float32, len(texts))
	for len(order) > 0 {
		n := m.texts.together(ids, order, m.batch)
		part := make([][]int64, n)
		for k, i := range order[:n] {
			part[k] = ids[i]
		}
		got, err := m.texts.encodeIDs(ctx, part)
		if err != nil {
			return nil, nil, err
		}
		for k, i := range order[:n] {
			out[i] = got[k]
		}
		order = order[n:]
	}
	return out, problems, nil
}

// together returns how many of the next texts share a run: those of equal length, unless the graph has a length of its
// own. Padding to another text's length would change the last bits, so embeddings would depend on what is cached.
func (t *textTower) together(ids [][]int64, order []int, batch int) int {
	if t.fixed > 0 {
		batch = t.fixed
	}
	n := 1
	for n < min(batch, len(order)) && (t.length > 0 || len(ids[order[n]]) == len(ids[order[0]])) {
		n++
	}
	return n
}

// encodeIDs runs the tower on texts.
func (t *textTower) encodeIDs(ctx context.Context, texts [][]int64) ([][]float32, error) {
	in, err := t.feeds(texts)
	if err != nil {
		return nil, err
	}
	return t.run(ctx, len(texts), in)
}

// feeds builds the inputs for texts, padded at the end to the longest text or to the graph's length. If the graph has
// a fixed batch size, the first text fills the rest.
func (t *textTower) feeds(texts [][]int64) (map[string]*tensor.Dense, error) {
	length := t.length
	for _, ids := range texts {
		if length = max(length, len(ids)); t.length > 0 && length > t.length {
			return nil, fmt.Errorf("a text of %d tokens is longer than the graph's %d", length, t.length)
		}
	}
	n := max(len(texts), t.fixed)
	ids, mask, ends := make([]int64, n*length), make([]int64, n*length), make([]int64, n)
	for i := range n {
		text := texts[0]
		if i < len(texts) {
			text = texts[i]
		}
		row := ids[i*length : (i+1)*length]
		copy(row, text)
		for k := range row {
			if k < len(text) {
				mask[i*length+k] = 1
			} else {
				row[k] = text[len(text)-1] // never the first occurrence of its id, so no rule takes it for the end
			}
		}
		if t.end != nil {
			at, err := t.end(text)
			if err != nil {
				return nil, err
			}
			ends[i] = int64(i*length + at)
		}
	}
	in := map[string]*tensor.Dense{inIDs: tensor.New(tensor.WithShape(n, length), tensor.WithBacking(ids))}
	if t.mask != "" {
		in[t.mask] = tensor.New(tensor.WithShape(n, length), tensor.WithBacking(mask))
	}
	if t.end != nil {
		in[inEnds] = tensor.New(tensor.WithShape(n), tensor.WithBacking(ends))
	}
	return in, nil
}

// tokenizer is CLIP's tokenizer, read from tokenizer.json.
type tokenizer struct {
	*tokens.Tokenizer
	most int // maximum tokens of a text, including begin and end
}

// openTokenizer reads tokenizer.json. Texts are truncated before begin and end are added, so that at most limit
// tokens remain, or model_max_length of tokenizer_config.json if that is less. The library does the truncation, since
// it knows which tokens are added.
func openTokenizer(dir string, limit int) (*tokenizer, error) {
	path := filepath.Join(dir, "tokenizer.json")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no tokenizer.json; create it from vocab.json and merges.txt with transformers: "+
			"AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)", dir)
	} else if err != nil {
		return nil, err
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var config struct {
		Most float64 `json:"model_max_length"` // 1e30 means none
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json")); err == nil {
		if err := json.Unmarshal(raw, &config); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "tokenizer_config.json"), err)
		}
	}
	t := &tokenizer{most: limit}
	if config.Most >= 1 && config.Most < float64(limit) {
		t.most = int(config.Most)
	}
	file["padding"] = json.RawMessage("null")
	file["truncation"] = fmt.Appendf(nil, `{"direction":"Right","max_length":%d,"strategy":"LongestFirst","stride":0}`,
		t.most)
	if raw, err = json.Marshal(file); err == nil {
		t.Tokenizer, err = tokens.New(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (t *tokenizer) encode(text string) ([]int64, error) {
	ids, err := t.Encode(text, true)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("text %.40q has no tokens", text)
	}
	out := make([]int64, len(ids))
	for i, id := range ids {
		out[i] = int64(id)
	}
	return out, nil
}
