package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ledger is a file of what was tried, a JSON line for each piece of a campaign: a campaign that was interrupted goes
// on, and several add up. What was tried with other programs than today's does not count.
type ledger struct {
	path, programs string

	mu    sync.Mutex
	lines map[[2]string]*tally // by table and line
	done  map[[3]string]bool   // by table, line and part
}

// Tables of a ledger. That of kills has no name.
const (
	ofKills  = ""
	ofFaults = "faults"
	ofStores = "stores"
	ofRivals = "rivals"
	ofCrowds = "crowds"
)

// kept is a line of the file.
type kept struct {
	Programs string   `json:"programs"` // digest of train, score, label and train for several processes
	Seed     uint64   `json:"seed"`
	Table    string   `json:"table,omitempty"`
	Command  string   `json:"command"`
	Part     string   `json:"part,omitempty"` // of the line, that is tried once
	Seconds  float64  `json:"seconds"`        // of one run that was left alone
	Together float64  `json:"together,omitempty"`
	Kills    int      `json:"kills,omitempty"`
	Runs     int      `json:"runs"`
	Begun    int      `json:"begun,omitempty"`
	Calls    int      `json:"calls,omitempty"`
	Failed   int      `json:"failed,omitempty"`
	Flaws    []string `json:"flaws,omitempty"`
	Error    string   `json:"error,omitempty"` // why it was not tried to its end
}

func (k *kept) tally() *tally {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return &tally{
		whole:  seconds(k.Seconds),
		crowd:  seconds(k.Together),
		kills:  k.Kills,
		runs:   k.Runs,
		calls:  k.Calls,
		failed: k.Failed,
		begun:  k.Begun,
		flaws:  k.Flaws,
		broken: k.Error != "",
	}
}

// openLedger reads the file, which need not be there.
func openLedger(path, bin, mpi string) (*ledger, error) {
	l := &ledger{path: path, lines: map[[2]string]*tally{}, done: map[[3]string]bool{}}
	sum := sha256.New()
	for _, program := range []string{filepath.Join(bin, "train"), filepath.Join(bin, "score"), filepath.Join(bin, "label"),
		filepath.Join(mpi, "train")} {
		f, err := os.Open(program)
		if errors.Is(err, fs.ErrNotExist) {
			continue // train for several processes need not be built
		}
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(sum, f)
		if f.Close(); err != nil {
			return nil, err
		}
	}
	l.programs = hex.EncodeToString(sum.Sum(nil)[:8])
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for text := range bytes.Lines(raw) {
		var k kept
		if err := json.Unmarshal(text, &k); err != nil {
			return nil, fmt.Errorf("%s: %w: remove the line", path, err)
		}
		if k.Programs != l.programs {
			continue
		}
		at := [2]string{k.Table, k.Command}
		if l.lines[at] == nil {
			l.lines[at] = &tally{}
		}
		l.lines[at].add(k.tally())
		l.done[[3]string{k.Table, k.Command, k.Part}] = true
	}
	return l, nil
}

// has tells whether the ledger has lines of a table.
func (l *ledger) has(table string) bool {
	if l != nil {
		for at := range l.lines {
			if at[0] == table {
				return true
			}
		}
	}
	return false
}

// tried tells whether a part of a line was tried before.
func (l *ledger) tried(table, name, part string) bool {
	return l != nil && l.done[[3]string{table, name, part}]
}

// line is a table's line with what came of it so far.
func (l *ledger) line(table, name string) *line {
	own := &line{name: name}
	if l != nil && l.lines[[2]string{table, name}] != nil {
		own.tally, own.tried = *l.lines[[2]string{table, name}], true
	}
	return own
}

// add writes what a piece came to, and returns failed, which is why it was not tried to its end, with what else failed.
// What was interrupted counts if it counts its runs.
func (l *ledger) add(seed uint64, at [3]string, t *tally, failed error) error {
	interrupted := errors.Is(failed, context.Canceled)
	if l == nil || t == nil || interrupted && at[2] != "" {
		return failed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := kept{
		Programs: l.programs,
		Seed:     seed,
		Table:    at[0],
		Command:  at[1],
		Part:     at[2],
		Seconds:  t.whole.Seconds(),
		Together: t.crowd.Seconds(),
		Kills:    t.kills,
		Runs:     t.runs,
		Begun:    t.begun,
		Calls:    t.calls,
		Failed:   t.failed,
		Flaws:    t.flaws,
	}
	if failed != nil && !interrupted {
		k.Error = failed.Error()
	}
	raw, err := json.Marshal(k)
	if err != nil {
		return errors.Join(failed, err)
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return errors.Join(failed, err)
	}
	_, err = f.Write(append(raw, '\n'))
	return errors.Join(failed, err, f.Close())
}
