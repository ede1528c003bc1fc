package trainer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"

	"assay/chat"
	"assay/chat/table"
	"assay/data"
	"assay/internal/exit"
	"assay/internal/remote"
	"assay/store"
)

// Conversation is what an example of mode text is: messages, and the pictures that they show, in their order.
type Conversation struct {
	Messages []chat.Message // pictures are empty
	Pictures []data.Image
	Contents []store.Key // of the pictures' encoded bytes, as they were when the run began
}

// openConversations opens the tables of mode text and looks at every row once.
func (d *Data) openConversations(c *Config) error {
	train := talkScan{data: d, digest: sha256.New()}
	rows := train.tables(c.Data.Train)
	d.Train, d.Validation = rows, &Samples{}
	d.noteTalks("train", &train)
	switch v := c.Data.Validation; {
	case len(v.Tables) > 0:
		valid := talkScan{data: d, digest: sha256.New()}
		d.Validation = valid.tables(v.Tables)
		d.noteTalks("validation", &valid)
		train.problems = append(train.problems, valid.problems...)
	case v.Fraction > 0:
		kept, held := holdOut(c.Seed, rows.Groups(), v.Fraction)
		d.Train, d.Validation = rows.choose(kept), rows.choose(held)
	}
	if err := errors.Join(train.problems...); err != nil {
		return exit.Usage(fmt.Errorf("the conversations:\n%w", err))
	}
	if d.Train.Len() == 0 && len(d.bad) == 0 {
		return exit.Usagef("data.train: no conversations in %s", strings.Join(c.Data.Train, ", "))
	}
	if d.Validation.Len() == 0 && len(d.bad) == 0 && len(c.Data.Validation.Tables) > 0 {
		return exit.Usagef("data.validation: no conversations in %s", strings.Join(c.Data.Validation.Tables, ", "))
	}
	return nil
}

func (d *Data) noteTalks(what string, s *talkScan) {
	d.fingerprint[what+" rows"] = fmt.Sprint(s.rows)
	d.fingerprint[what+" content"] = hex.EncodeToString(s.digest.Sum(nil))[:32]
}

// talkScan goes through tables of conversations once.
type talkScan struct {
	data     *Data
	digest   hash.Hash // over the content of all rows
	rows     int
	problems []error // of tables as a whole
}

func (s *talkScan) tables(paths []string) *Samples {
	out := &Samples{}
	for _, path := range paths {
		t, err := table.Open(path)
		if err != nil {
			s.problems = append(s.problems, err)
			continue
		}
		s.data.talks = append(s.data.talks, t)
		number := len(s.data.talks) - 1
		for i := range t.Len() {
			s.rows++
			row, err := s.row(t, i)
			if remote.Failed(err) {
				s.problems = append(s.problems, fmt.Errorf("row %d: %w", i+1, err))
				return out
			}
			row.number = number
			if err != nil && row.digest == "" {
				s.data.bad = append(s.data.bad,
					unreadRow{BadRow{Table: t.Path(), Row: i + 1, ID: row.id, Reason: err.Error()}, number})
				continue
			}
			if err != nil {
				row.bad = err.Error()
			}
			out.rows = append(out.rows, row)
		}
	}
	return out
}

// row reads a conversation and the digests of its pictures. Conversations about the same pictures are of one group, so
// that none of them is held out while another is trained on.
func (s *talkScan) row(t *table.Conversations, i int) (sampleRow, error) {
	r := sampleRow{talks: t, index: i}
	row, err := t.Read(i)
	if err != nil {
		return r, err
	}
	r.id = rowID(row.ID)
	if len(row.Given) > 0 {
		return r, fmt.Errorf("%s says how a model is to be asked: a conversation to learn from has id and messages only",
			strings.Join(row.Given, ", "))
	}
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(row.Messages); err != nil {
		return r, err
	}
	var unread error
	for k, m := range row.Pictures {
		content, err := store.Content(t.Folder(), m)
		if err != nil && unread == nil {
			unread = fmt.Errorf("picture %d: %w", k+1, err)
		}
		if remote.Failed(err) {
			break
		}
		h.Write(content[:])
		r.pictures = append(r.pictures, content)
	}
	sum := h.Sum(nil)
	s.digest.Write(sum)
	r.digest = hex.EncodeToString(sum[:8])
	r.group = r.digest
	if len(r.pictures) > 0 {
		sorted := slices.Clone(r.pictures)
		slices.SortFunc(sorted, func(a, b store.Key) int { return slices.Compare(a[:], b[:]) })
		h.Reset()
		for _, k := range slices.Compact(sorted) {
			h.Write(k[:])
		}
		r.group = hex.EncodeToString(h.Sum(nil)[:12])
	}
	return r, unread
}

// rowID is the id of a row as people read it.
func rowID(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if s := string(raw); s != "null" {
		return s
	}
	return ""
}

// conversation reads the row as an example.
func (r *sampleRow) conversation() (Example, error) {
	row, err := r.talks.Read(r.index)
	if err != nil {
		return Example{}, err
	}
	e := Example{Base: r.talks.Folder(), Talk: &Conversation{row.Messages, row.Pictures, r.pictures}}
	if e.Row.ID = r.id; r.id == "" {
		e.Row.ID = r.place().String()
	}
	return e, nil
}

// talkPicture decodes a picture of a conversation. It must be what it was when the run began.
func (e *Example) talkPicture(i int) (*data.Picture, error) {
	return openAs(e.Talk.Pictures[i], e.Base, e.Talk.Contents[i])
}

// openAs decodes a picture, which must have the content.
func openAs(m data.Image, base string, content store.Key) (*data.Picture, error) {
	raw, err := m.Read(base, data.Limits{})
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(raw) != content {
		return nil, fmt.Errorf("%s has changed since the run looked at its rows: a run sees the same pictures to its end",
			m.File(base))
	}
	return m.Decode(base, raw, data.Limits{})
}
