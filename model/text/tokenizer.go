package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/tokens"
)

// tokenizer is a Hugging Face tokenizer with the score token added.
type tokenizer struct {
	handle  *tokens.Tokenizer
	special []string              // contents of the special tokens, the score token last
	added   map[string]addedToken // added_tokens of tokenizer.json by content, without a score token

	scoreToken       string
	scoreInTokenizer uint32 // the tokenizer's id of it
	scoreID          int64  // the model's id of it
	rows             int64  // of the checkpoint's embedding table: every other id is less
	own              bool   // the score token is a token of the checkpoint like any other, or there is none

	bos       string            // beginning of text, "" if there is none
	variables map[string]string // bos_token, eos_token, ...: what templates may refer to
}

// addedToken is an entry of tokenizer.json's added_tokens.
type addedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

func openTokenizer(dir, scoreToken string, rows int64, own bool) (*tokenizer, error) {
	if !own && scoreToken == "" || strings.TrimSpace(scoreToken) != scoreToken {
		return nil, fmt.Errorf("score token %q: it must not be empty or begin or end with white space", scoreToken)
	}
	path := filepath.Join(dir, "tokenizer.json")
	data, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: no tokenizer.json; save the checkpoint's tokenizer with transformers' save_pretrained",
				dir)
		}
		return nil, err
	}
	t := &tokenizer{
		scoreToken: scoreToken,
		scoreID:    rows,
		rows:       rows,
		own:        own,
		added:      map[string]addedToken{},
	}
	if data, err = t.addScoreToken(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if t.variables, err = readSpecialNames(dir); err != nil {
		return nil, err
	}
	t.bos = t.variables["bos_token"]
	if t.handle, err = tokens.New(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := t.findScoreToken(); err != nil {
		t.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := t.checkConfig(dir); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// addScoreToken returns tokenizer.json with the score token appended to added_tokens, and without truncation and
// padding, which transformers does not apply unless asked to. The id written is a suggestion: the library keeps the id
// of a token it already knows and otherwise takes the next free one; findScoreToken looks it up.
func (t *tokenizer) addScoreToken(data []byte) ([]byte, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	var raw []json.RawMessage
	if added := file["added_tokens"]; added != nil {
		if err := json.Unmarshal(added, &raw); err != nil {
			return nil, fmt.Errorf("added_tokens: %w", err)
		}
	}
	score, known := addedToken{Content: t.scoreToken, Special: true}, false
	kept := make([]json.RawMessage, 0, len(raw)+1)
	for _, r := range raw {
		var a addedToken
		if err := json.Unmarshal(r, &a); err != nil {
			return nil, fmt.Errorf("added_tokens: %w", err)
		}
		if a.Content == t.scoreToken && t.own {
			known = true
		} else if a.Content == t.scoreToken {
			score.ID = a.ID // known already: it keeps its id and gets our flags
			continue
		}
		kept = append(kept, r)
		t.added[a.Content] = a
		score.ID = max(score.ID, a.ID+1)
		if a.Special && a.Content != "" {
			t.special = append(t.special, a.Content)
		}
	}
	if t.scoreToken != "" && !known {
		entry, err := json.Marshal(score)
		if err != nil {
			return nil, err
		}
		kept = append(kept, entry)
	}
	if t.scoreToken != "" {
		t.special = append(t.special, t.scoreToken)
	}
	var err error
	if file["added_tokens"], err = json.Marshal(kept); err != nil {
		return nil, err
	}
	file["truncation"], file["padding"] = json.RawMessage("null"), json.RawMessage("null")
	return json.Marshal(file)
}

// findScoreToken looks up the score token's id. A token of the checkpoint must have a row in its embedding table.
func (t *tokenizer) findScoreToken() (err error) {
	if t.scoreToken == "" {
		t.scoreInTokenizer = ^uint32(0) // no token has it
		return nil
	}
	if t.scoreInTokenizer, err = t.ID(t.scoreToken); err != nil || !t.own {
		return err
	}
	if t.scoreID = int64(t.scoreInTokenizer); t.scoreID >= t.rows {
		return fmt.Errorf("%s becomes token %d, but the embedding table has %d rows: tokenizer and weights do not "+
			"match", t.scoreToken, t.scoreID, t.rows)
	}
	return nil
}

// ID returns the tokenizer's id of one token, for instance a placeholder; an error if the text is not one token. For
// the score token, too, this is the tokenizer's id, not the model's.
func (t *tokenizer) ID(token string) (uint32, error) {
	if err := tokens.Check("token", token); err != nil {
		return 0, err
	}
	ids, err := t.handle.Encode(token, false)
	if err != nil {
		return 0, err
	}
	if len(ids) != 1 {
		return 0, fmt.Errorf("tokenizer does not know %q as one token (it becomes %d)", token, len(ids))
	}
	return ids[0], nil
}

// Close frees the tokenizer. Calling it again does nothing.
func (t *tokenizer) Close() error { return t.handle.Close() }

// readSpecialNames collects bos_token, eos_token, pad_token... of tokenizer_config.json (special_tokens_map.json in
// older checkpoints), each a string or an object with "content". Both files may be absent.
func readSpecialNames(dir string) (map[string]string, error) {
	names := map[string]string{}
	for _, file := range []string{"special_tokens_map.json", "tokenizer_config.json"} {
		fields, err := readObject(dir, file)
		if err != nil {
			return nil, err
		}
		for key, raw := range fields {
			if !strings.HasSuffix(key, "_token") {
				continue
			}
			var object struct{ Content string }
			var content string
			if json.Unmarshal(raw, &content) != nil && json.Unmarshal(raw, &object) == nil {
				content = object.Content
			}
			if content != "" {
				names[key] = content
			}
		}
	}
	return names, nil
}

// readObject reads a JSON object; nil if the file does not exist.
func readObject(dir, name string) (map[string]json.RawMessage, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return fields, nil
}
