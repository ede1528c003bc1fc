// Package tokens holds tokenizers of the tokenizers library that goroutines share.
package tokens

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/daulet/tokenizers"
)

// Tokenizer is a tokenizer.json. Any number of goroutines may encode at a time.
type Tokenizer struct {
	mu     sync.RWMutex // held for reading while encoding: closing waits
	handle *tokenizers.Tokenizer
}

// New opens the content of a tokenizer.json. Close frees it.
func New(json []byte) (*Tokenizer, error) {
	h, err := tokenizers.FromBytes(json)
	if err != nil {
		return nil, err
	}
	return &Tokenizer{handle: h}, nil
}

// Encode gives the ids of a text, with the post-processor's special tokens if asked for.
func (t *Tokenizer) Encode(text string, special bool) ([]uint32, error) {
	if err := Check("text", text); err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.handle == nil {
		return nil, errors.New("the tokenizer is closed")
	}
	ids := t.handle.EncodeWithOptions(text, special).IDs
	if ids == nil && text != "" {
		return nil, fmt.Errorf("the tokenizer cannot encode %.80q", text)
	}
	return ids, nil
}

// Library is the library's own tokenizer, for what is not wrapped here.
func (t *Tokenizer) Library() *tokenizers.Tokenizer { return t.handle }

// Close frees the tokenizer. Calling it again does nothing.
func (t *Tokenizer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handle == nil {
		return nil
	}
	err := t.handle.Close()
	t.handle = nil
	return err
}

// Check refuses what the library's C interface would cut or replace without a word. what names the text.
func Check(what, text string) error {
	switch {
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %.80q is not valid UTF-8", what, text)
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("%s %.80q contains a zero byte", what, text)
	}
	return nil
}
