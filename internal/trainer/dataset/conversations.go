package dataset

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/chat"
	"assay/chat/table"
	"assay/data"
	"assay/internal/exit"
	"assay/internal/remote"
	"assay/internal/store"
	"assay/internal/trainer/config"
)

// Conversation is an example of mode text: messages, and the pictures that they show, in order.
type Conversation struct {
	Messages []chat.Message // pictures are empty
	Pictures []data.Image
	Contents []store.Key // digests of the pictures' encoded bytes when the run began
	Folder   string      // of the table; picture paths are relative to it

	Columns map[string]json.RawMessage // columns that rewards read
}

// openConversations opens the tables of mode text and scans every row once.
func (d *Data) openConversations(c *config.Config) error {
	train := scan{data: d, digest: sha256.New(), further: c.RewardColumns()}
	rows := train.conversationTables(c.Data.Train)
	d.Train, d.Validation = rows, &Samples{}
	d.note("train", &train)
	switch v := c.Data.Validation; {
	case len(v.Tables) > 0:
		valid := scan{data: d, digest: sha256.New(), further: c.RewardColumns()}
		d.Validation = valid.conversationTables(v.Tables)
		d.note("validation", &valid)
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
	return d.checkHeldOut(c)
}

// conversationTables scans tables of conversations.
func (s *scan) conversationTables(paths []string) *Samples {
	out := &Samples{}
	for _, path := range paths {
		t, err := table.Open(path, s.further...)
		if err != nil {
			s.problems = append(s.problems, err)
			continue
		}
		s.data.conversations = append(s.data.conversations, t)
		number := len(s.data.conversations) - 1
		for i := range t.Len() {
			s.rows++
			row, err := s.conversation(t, i)
			if remote.Failed(err) {
				s.problems = append(s.problems, fmt.Errorf("row %d: %w", i+1, err))
				return out
			}
			row.number = number
			if err != nil && row.Digest == "" {
				s.data.bad = append(s.data.bad,
					unreadRow{BadRow{Table: t.Path(), Row: i + 1, ID: row.ID, Reason: err.Error()}, number})
				continue
			}
			if err != nil {
				row.Bad = err.Error()
			}
			out.Rows = append(out.Rows, row)
		}
	}
	return out
}

// conversation reads a conversation and the digests of its pictures. Conversations about the same pictures are in one
// group, so that none of them is held out while another is trained on.
func (s *scan) conversation(t *table.Conversations, i int) (Row, error) {
	r := Row{conversations: t, Index: i}
	row, err := t.Read(i)
	if err != nil {
		return r, err
	}
	r.ID = rowID(row.ID)
	if len(row.Given) > 0 {
		return r, fmt.Errorf("%s sets how to query a model: a conversation to learn from only has id and messages",
			strings.Join(row.Given, ", "))
	}
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(row.Messages); err != nil {
		return r, err
	}
	if len(row.Columns) > 0 {
		if err := json.NewEncoder(h).Encode(row.Columns); err != nil {
			return r, err
		}
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
	r.Digest = hex.EncodeToString(sum[:8])
	r.Group = r.Digest
	if len(r.pictures) > 0 {
		sorted := slices.Clone(r.pictures)
		slices.SortFunc(sorted, func(a, b store.Key) int { return slices.Compare(a[:], b[:]) })
		h.Reset()
		for _, k := range slices.Compact(sorted) {
			h.Write(k[:])
		}
		r.Group = hex.EncodeToString(h.Sum(nil)[:12])
	}
	return r, unread
}

// rowID returns the id of a row for display.
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

// conversation reads the row as an example of mode text.
func (r *Row) conversation() (Example, error) {
	row, err := r.conversations.Read(r.Index)
	if err != nil {
		return Example{}, err
	}
	e := Example{Conversation: &Conversation{row.Messages, row.Pictures, r.pictures, r.conversations.Folder(),
		row.Columns}}
	e.Edit.ID = cmp.Or(r.ID, r.place().String())
	return e, nil
}

// Picture returns the i-th picture of the conversation.
func (c *Conversation) Picture(i int) RowPicture {
	return RowPicture{File: data.File{Image: c.Pictures[i], Folder: c.Folder}, Content: c.Contents[i]}
}
