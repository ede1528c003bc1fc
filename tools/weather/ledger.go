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
	"time"
)

// ledger is a file of kills, a JSON line for each piece of a campaign: a campaign that was interrupted goes on, and
// several add up. Those of other programs than today's do not count.
type ledger struct {
	path, programs string
	lines          map[string]*tally // by command
}

// kept is a line of the file.
type kept struct {
	Programs string   `json:"programs"` // digest of train, score, label and train for several processes
	Seed     uint64   `json:"seed"`
	Piece    int      `json:"piece"`
	Command  string   `json:"command"`
	Seconds  float64  `json:"seconds"` // of one run that was left alone
	Kills    int      `json:"kills"`
	Runs     int      `json:"runs"`
	Flaws    []string `json:"flaws,omitempty"`
	Error    string   `json:"error,omitempty"` // why it was not tried to its end
}

// openLedger reads the file, which need not be there.
func openLedger(path, bin, mpi string) (*ledger, error) {
	l := &ledger{path: path, lines: map[string]*tally{}}
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
		t := l.lines[k.Command]
		if t == nil {
			t = &tally{}
			l.lines[k.Command] = t
		}
		t.add(&tally{whole: time.Duration(k.Seconds * float64(time.Second)), kills: k.Kills, runs: k.Runs, flaws: k.Flaws,
			broken: k.Error != ""})
	}
	return l, nil
}

// line is a table's line with the kills of a command so far.
func (l *ledger) line(name string) *line {
	own := &line{name: name}
	if l != nil && l.lines[name] != nil {
		own.tally, own.tried = *l.lines[name], true
	}
	return own
}

// add writes what a piece came to, and returns failed, which is why it was not tried to its end, with what else failed.
func (l *ledger) add(seed uint64, piece int, command string, t *tally, failed error) error {
	if l == nil || t == nil {
		return failed
	}
	k := kept{Programs: l.programs, Seed: seed, Piece: piece, Command: command, Seconds: t.whole.Seconds(), Kills: t.kills,
		Runs: t.runs, Flaws: t.flaws}
	if failed != nil && !errors.Is(failed, context.Canceled) {
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
