package text

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// decoder turns ids into text, as the decoder of tokenizer.json says. (The tokenizer library's own stops at a zero
// byte.)
type decoder struct {
	contents []string // by id
	known    []bool
	special  map[int64]bool
	steps    []func(tokens []string) []string
	raw      json.RawMessage // source of the steps
}

// Decode returns the text of ids as transformers' decode does with skip_special_tokens; ids without a token are also
// left out. Ill-formed UTF-8 becomes U+FFFD.
func (p *Processor) Decode(ids []int64) (string, error) {
	d, err := p.decoder()
	if err != nil {
		return "", err
	}
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		if id >= 0 && id < int64(len(d.contents)) && d.known[id] && !d.special[id] {
			tokens = append(tokens, d.contents[id])
		}
	}
	for _, step := range d.steps {
		tokens = step(tokens)
	}
	return strings.Join(tokens, ""), nil
}

// openDecoder reads vocabulary and decoder of a checkpoint's tokenizer.json.
func openDecoder(dir string) (*decoder, error) {
	path := filepath.Join(dir, "tokenizer.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Added   []addedToken    `json:"added_tokens"`
		Decoder json.RawMessage `json:"decoder"`
		Model   struct {
			Type  string          `json:"type"`
			Vocab json.RawMessage `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	vocab := map[string]int64{}
	if err := json.Unmarshal(file.Model.Vocab, &vocab); err != nil {
		return nil, fmt.Errorf("%s: model.vocab: tokens of a %s model cannot be joined into text: %w", path,
			file.Model.Type, err)
	}
	d := &decoder{special: map[int64]bool{}, raw: file.Decoder}
	for content, id := range vocab {
		if err := d.put(id, content); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, a := range file.Added {
		if err := d.put(a.ID, a.Content); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		d.special[a.ID] = a.Special
	}
	if d.steps, err = decoderSteps(file.Decoder); err != nil {
		return nil, fmt.Errorf("%s: decoder: %w", path, err)
	}
	return d, nil
}

func (d *decoder) put(id int64, content string) error {
	if id < 0 || id > 1<<24 {
		return fmt.Errorf("token %q has the id %d, which is out of range", clip(content), id)
	}
	for int64(len(d.contents)) <= id {
		d.contents, d.known = append(d.contents, ""), append(d.known, false)
	}
	d.contents[id], d.known[id] = content, true
	return nil
}

// decoderSteps reads the decoder: each step maps tokens to tokens, which are joined in the end.
func decoderSteps(raw json.RawMessage) ([]func([]string) []string, error) {
	var c struct {
		Type     string
		Decoders []json.RawMessage
		Pattern  struct{ String *string }
		Content  string
		Start    int
		Stop     int
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	switch c.Type {
	case "Sequence":
		var all []func([]string) []string
		for _, part := range c.Decoders {
			steps, err := decoderSteps(part)
			if err != nil {
				return nil, err
			}
			all = append(all, steps...)
		}
		return all, nil
	case "ByteLevel":
		return []func([]string) []string{byteLevel}, nil
	case "ByteFallback":
		return []func([]string) []string{byteFallback}, nil
	case "Fuse":
		return []func([]string) []string{func(t []string) []string { return []string{strings.Join(t, "")} }}, nil
	case "Replace":
		if c.Pattern.String == nil {
			return nil, fmt.Errorf("decoder Replace: only a pattern of type String is supported")
		}
		return []func([]string) []string{each(func(s string) string {
			return strings.ReplaceAll(s, *c.Pattern.String, c.Content)
		})}, nil
	case "Strip":
		return []func([]string) []string{each(func(s string) string {
			for range c.Start {
				s = strings.TrimPrefix(s, c.Content)
			}
			for range c.Stop {
				s = strings.TrimSuffix(s, c.Content)
			}
			return s
		})}, nil
	}
	return nil, fmt.Errorf("type %q is not supported; Sequence, ByteLevel, ByteFallback, Fuse, Replace and Strip are",
		c.Type)
}

func each(f func(string) string) func([]string) []string {
	return func(tokens []string) []string {
		out := make([]string, len(tokens))
		for i, t := range tokens {
			out[i] = f(t)
		}
		return out
	}
}

// byteOf maps a character of a byte-level vocabulary to its byte: printable bytes map to themselves, the others to the
// characters starting at 256, in order.
var byteOf = func() map[rune]byte {
	m, next := map[rune]byte{}, rune(256)
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			m[rune(b)] = byte(b)
		} else {
			m[next] = byte(b)
			next++
		}
	}
	return m
}()

// byteLevel concatenates the bytes of all tokens. A token with any other character is taken as it is.
func byteLevel(tokens []string) []string {
	var all []byte
	for _, t := range tokens {
		all = append(all, bytesOf(t)...)
	}
	return []string{lossy(all)}
}

// bytesOf are the bytes of a token of a byte-level vocabulary.
func bytesOf(token string) []byte {
	var all []byte
	for _, r := range token {
		b, ok := byteOf[r]
		if !ok {
			return []byte(token)
		}
		all = append(all, b)
	}
	return all
}

// byteFallback joins runs of tokens like <0xE2> into characters; if a run is not valid UTF-8, each becomes U+FFFD.
func byteFallback(tokens []string) []string {
	var out []string
	var run []byte
	flush := func() {
		if utf8.Valid(run) {
			out = append(out, string(run))
		} else {
			out = append(out, strings.Repeat(string(utf8.RuneError), len(run)))
		}
		run = run[:0]
	}
	for _, t := range tokens {
		if b, ok := fallback(t); ok {
			run = append(run, b)
			continue
		}
		if len(run) > 0 {
			flush()
		}
		out = append(out, t)
	}
	if len(run) > 0 {
		flush()
	}
	return out
}

// fallback is the byte that a token like <0xE2> stands for.
func fallback(token string) (b byte, ok bool) {
	if len(token) != 6 || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	n, err := fmt.Sscanf(token[3:5], "%02X", &b)
	return b, n == 1 && err == nil
}

// lossy replaces each maximal ill-formed part by one U+FFFD, as Rust's from_utf8_lossy (Unicode, section 3.9, U+FFFD
// substitution of maximal subparts).
func lossy(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r != utf8.RuneError || size > 1 {
			out.Write(b[:size])
			b = b[size:]
			continue
		}
		out.WriteRune(utf8.RuneError)
		b = b[illFormed(b):]
	}
	return out.String()
}

// illFormed is the length of the maximal part of a character that b begins with but does not finish, at least 1.
func illFormed(b []byte) int {
	low, high, more := byte(0x80), byte(0xBF), 0
	switch lead := b[0]; {
	case lead >= 0xC2 && lead <= 0xDF:
		more = 1
	case lead >= 0xE0 && lead <= 0xEF:
		more = 2
		if lead == 0xE0 {
			low = 0xA0
		} else if lead == 0xED {
			high = 0x9F
		}
	case lead >= 0xF0 && lead <= 0xF4:
		more = 3
		if lead == 0xF0 {
			low = 0x90
		} else if lead == 0xF4 {
			high = 0x8F
		}
	}
	n := 1
	for n <= more && n < len(b) && b[n] >= low && b[n] <= high {
		n, low, high = n+1, 0x80, 0xBF
	}
	return n
}
