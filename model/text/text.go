// Package text turns a question about pictures into token ids, exactly as transformers does from the same files. It
// renders the checkpoint's own chat template as Jinja and runs the checkpoint's own tokenizer. One additional special
// token ([SCORE]) gets the embedding row after the checkpoint's last one. A [Processor] renders prompts and
// conversations, refuses questions and messages that contain or form special tokens, repeats each picture's
// placeholder once per picture token, and decodes generated ids back into text.
package text

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"assay/internal/tokens"
)

// Processor holds the tokenizer and the chat template of one checkpoint. All methods may be called concurrently.
type Processor struct {
	*tokenizer
	template *chatTemplate
	// templateErr is what Prompt returns if the checkpoint has no chat template: token ids do not need one.
	templateErr error
	decoder     func() (*decoder, error) // read on first use
	specialIDs  map[uint32]string        // contents of special tokens
	usual       sync.Map                 // usualKey -> special tokens of the prompt, map[uint32]int
}

// Tokens is one tokenised sample.
type Tokens struct {
	IDs         []int64 // [L]; placeholders repeated, the score token replaced by its embedding row
	AnswerStart int     // index of the first token after the prompt
	ScoreIndex  int     // index of the score token; -1: there is none
	Pictures    []int   // index of the first placeholder of every picture
}

// Option changes what Open reads.
type Option func(*options)

type options struct {
	template string
	numbers  [2]string // text, placeholder
	own      bool
}

// WithTemplate renders prompts with this Jinja source instead of the checkpoint's chat template. Empty: no change.
func WithTemplate(source string) Option { return func(o *options) { o.template = source } }

// NumberMark is replaced by a picture's number in the text before it.
const NumberMark = "{n}"

// WithNumbers writes a text before each picture of a question, as "Picture {n}: ", with its number from 1 for
// [NumberMark]. Empty: none. placeholder is the picture placeholder in a prompt.
func WithNumbers(text, placeholder string) Option {
	return func(o *options) { o.numbers = [2]string{text, placeholder} }
}

// WithOwnToken takes the score token as a token of the checkpoint, which has a row of its embedding table: one that
// the tokenizer knows, or the next free one. "" means that there is no score token. scoreID of Open is then only the
// number of rows.
func WithOwnToken() Option { return func(o *options) { o.own = true } }

// Open reads tokenizer.json, tokenizer_config.json and the chat template of a Hugging Face checkpoint directory.
// scoreToken is added to the tokenizer as a special token, not normalised, nothing stripped around it; its id becomes
// scoreID, the number of rows of the checkpoint's embedding table. The ids of all other tokens must be below scoreID.
//
// A checkpoint without a chat template opens; Prompt then names the files that were looked for. Close frees the
// tokenizer.
func Open(dir, scoreToken string, scoreID int64, opts ...Option) (*Processor, error) {
	var o options
	for _, set := range opts {
		set(&o)
	}
	t, err := openTokenizer(dir, scoreToken, scoreID, o.own)
	if err != nil {
		return nil, err
	}
	p := &Processor{tokenizer: t, specialIDs: map[uint32]string{}}
	p.decoder = sync.OnceValues(func() (*decoder, error) { return openDecoder(dir) })
	for _, token := range t.special {
		if id, err := t.ID(token); err == nil {
			p.specialIDs[id] = token
		}
	}
	source, origin := o.template, "the given chat template"
	if source == "" {
		source, origin, p.templateErr = findTemplate(dir)
	}
	if p.templateErr == nil {
		if p.template, err = compileTemplate(source, origin, t.variables); err != nil {
			t.Close()
			return nil, err
		}
		if err := p.checkContent("number_pictures", Content{Text: o.numbers[0]}); err != nil {
			t.Close()
			return nil, err
		}
		p.template.numbers, p.template.placeholder = o.numbers[0], o.numbers[1]
	}
	return p, nil
}

// Prompt renders one user turn, pictures first and then the question, followed by the generation prompt. Placeholders
// are not repeated yet. A question that contains one of the tokenizer's special tokens (a picture's placeholder, an end
// of turn, the score token) is refused. It would change what the model sees of the rest.
func (p *Processor) Prompt(pictures int, question string) (string, error) {
	return p.PromptAmong(pictures, pictures, question)
}

// PromptAmong is Prompt with the question after the first pictures, before in number. It is an error if the chat
// template moves the pictures to the front.
func (p *Processor) PromptAmong(pictures, before int, question string) (string, error) {
	if p.templateErr != nil {
		return "", p.templateErr
	}
	if err := tokens.Check("question", question); err != nil {
		return "", err
	}
	for _, special := range p.special {
		if strings.Contains(question, special) {
			return "", fmt.Errorf("question %q contains %q, a special token of this model: remove it", clip(question), special)
		}
	}
	prompt, err := p.template.renderAmong(pictures, before, question)
	if err != nil {
		return "", err
	}
	if before < pictures {
		if first, err := p.template.render(pictures, question); err != nil || first == prompt {
			return "", errors.Join(err, fmt.Errorf("%s: chat template: it puts pictures in front of the question wherever they "+
				"are: set chat_template to one that keeps the parts of a turn in their order", p.template.origin))
		}
	}
	return prompt, p.checkSpecial(prompt, usualKey{pictures, before, "x"}, question)
}

// usualKey is a question whose special tokens are known.
type usualKey struct {
	pictures, before int
	question         string
}

// checkSpecial compares the special tokens of a prompt with those for a plain question. A special token may also come
// from spellings that the tokenizer normalises, or form where the question meets its surroundings.
func (p *Processor) checkSpecial(prompt string, key usualKey, question string) error {
	got, err := p.countSpecial(prompt)
	if err != nil {
		return err
	}
	known, ok := p.usual.Load(key)
	if !ok {
		plain, err := p.template.renderAmong(key.pictures, key.before, key.question)
		if err != nil {
			return err
		}
		counts, err := p.countSpecial(plain)
		if err != nil {
			return err
		}
		known, _ = p.usual.LoadOrStore(key, counts)
	}
	want := known.(map[uint32]int)
	for id, token := range p.specialIDs {
		if got[id] != want[id] {
			return fmt.Errorf(
				"question %q forms %q, a special token of this model: it occurs %d times in the prompt instead of %d",
				clip(question), token, got[id], want[id])
		}
	}
	return nil
}

// countSpecial counts the special tokens of a text by id.
func (p *Processor) countSpecial(text string) (map[uint32]int, error) {
	ids, err := p.handle.Encode(text, false)
	if err != nil {
		return nil, err
	}
	counts := map[uint32]int{}
	for _, id := range ids {
		if _, ok := p.specialIDs[id]; ok {
			counts[id]++
		}
	}
	return counts, nil
}

// Encode tokenises prompt + answer + endOfTurn at once, with the tokens that the tokenizer's post-processor adds
// around it. The prompt holds one placeholder per picture; placeholder i counts counts[i] times. The tokenizer sees
// it once: it is an added token, which separates its neighbours. So repeating its id is the same as tokenising the
// repeated text.
//
// The prompt is also tokenised by itself to find where the answer starts: at the first token that differs.
func (p *Processor) Encode(prompt, answer, endOfTurn, placeholder string, counts []int) (Tokens, error) {
	if n := strings.Count(answer, p.scoreToken); n != 1 {
		return Tokens{}, fmt.Errorf("answer %q contains %s %d times: it must contain it exactly once", answer, p.scoreToken,
			n)
	}
	t, err := p.tokens(prompt, answer, endOfTurn, placeholder, counts)
	if err == nil && t.ScoreIndex < 0 {
		err = fmt.Errorf("tokenizer does not keep %s as one token of the answer", p.scoreToken)
	}
	return t, err
}

// EncodeText is Encode for an answer of plain text: there is no score token, and ScoreIndex is -1.
func (p *Processor) EncodeText(prompt, answer, endOfTurn, placeholder string, counts []int) (Tokens, error) {
	if strings.Contains(answer, p.scoreToken) {
		return Tokens{}, fmt.Errorf("answer %q contains %s: it must be plain text", answer, p.scoreToken)
	}
	return p.tokens(prompt, answer, endOfTurn, placeholder, counts)
}

// tokens tokenises prompt + answer + endOfTurn with or without a score token.
func (p *Processor) tokens(prompt, answer, endOfTurn, placeholder string, counts []int) (Tokens, error) {
	for _, s := range []struct{ what, text string }{{"prompt", prompt}, {"answer", answer}, {"end of turn", endOfTurn}} {
		if err := tokens.Check(s.what, s.text); err != nil {
			return Tokens{}, err
		}
	}
	picture, err := p.ID(placeholder)
	if err != nil {
		return Tokens{}, fmt.Errorf("picture placeholder: %w", err)
	}
	// The template may have put the beginning of the text there itself; transformers then adds no special tokens.
	special := !p.Begins(prompt)
	ids, err := p.handle.Encode(prompt+answer+endOfTurn, special)
	if err != nil {
		return Tokens{}, err
	}
	head, err := p.handle.Encode(prompt, special)
	if err != nil {
		return Tokens{}, err
	}
	start := 0
	for start < len(head) && start < len(ids) && ids[start] == head[start] {
		start++
	}
	t, err := p.expand(ids, start, picture, placeholder, counts)
	if err == nil && t.AnswerStart < 0 {
		err = fmt.Errorf(
			"the answer adds no token: it and the end of the turn are empty, or the prompt already ends with them")
	}
	return t, err
}

// expand repeats placeholders, finds the score token and gives it its row.
func (p *Processor) expand(ids []uint32, start int, picture uint32, placeholder string, counts []int) (Tokens, error) {
	total := len(ids)
	for i, n := range counts {
		if n < 1 {
			return Tokens{}, fmt.Errorf("picture %d has %d tokens: at least 1 is needed", i, n)
		}
		total += n - 1
	}
	t := Tokens{IDs: make([]int64, 0, total), AnswerStart: -1, ScoreIndex: -1}
	for i, id := range ids {
		if i == start {
			t.AnswerStart = len(t.IDs)
		}
		switch {
		case id == picture:
			k := len(t.Pictures)
			t.Pictures = append(t.Pictures, len(t.IDs))
			if k < len(counts) {
				t.IDs = append(t.IDs, slices.Repeat([]int64{int64(id)}, counts[k])...)
			}
		case id == p.scoreInTokenizer:
			if t.ScoreIndex >= 0 {
				return Tokens{}, fmt.Errorf("%s also occurs in the prompt: remove it there", p.scoreToken)
			}
			t.ScoreIndex = len(t.IDs)
			t.IDs = append(t.IDs, p.scoreID)
		case int64(id) >= p.rows:
			return Tokens{}, fmt.Errorf("token %d of the tokenizer has no row: the checkpoint's embedding table has %d", id,
				p.rows)
		default:
			t.IDs = append(t.IDs, int64(id))
		}
	}
	if len(t.Pictures) != len(counts) {
		return Tokens{}, fmt.Errorf("prompt has %d times %s for %d pictures: check the chat template", len(t.Pictures),
			placeholder, len(counts))
	}
	return t, nil
}

// clip shortens a text for an error message.
func clip(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:77]) + "..."
	}
	return s
}
