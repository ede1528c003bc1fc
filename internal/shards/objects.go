package shards

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"assay/internal/remote"
)

// objects is a folder on object storage. Claims are conditional writes (If-None-Match or similar), of which exactly
// one succeeds. Partial results are on the worker's machine: a worker on another machine that takes over starts the
// shard over.
type objects string

// ctx is not canceled by an interrupt, so that leases are released. Each request has a timeout.
func (o objects) ctx() context.Context { return context.Background() }

func (o objects) path(name string) string { return remote.Join(string(o), name) }

// check returns an error if the storage cannot prevent two workers from claiming the same shard.
func (o objects) check() error {
	if strings.HasPrefix(string(o), "file://") {
		return fmt.Errorf("%s: use a plain path for shards, not file://: two workers could claim one shard", o)
	}
	probe := o.path(".probe-" + rand.Text()) // workers in one process may probe at the same time
	if err := remote.Put(o.ctx(), probe, []byte("1\n"), true); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err := remote.Put(o.ctx(), probe, []byte("2\n"), true)
	if e := remote.Remove(o.ctx(), probe); e != nil {
		return e
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%s: this storage ignores If-None-Match and overwrites objects, "+
		"so that two workers could claim one shard: use a folder on a shared file system instead", o)
}

func (o objects) has(name string) (bool, error) {
	_, err := remote.Stat(o.ctx(), o.path(name))
	if remote.IsMissing(err) {
		return false, nil
	}
	return err == nil, err
}

func (o objects) read(name string) ([]byte, error) { return remote.ReadFile(o.ctx(), o.path(name)) }

func (o objects) write(name string, raw []byte) error {
	return remote.Put(o.ctx(), o.path(name), raw, false)
}

func (o objects) once(name string, raw []byte) error {
	err := remote.Put(o.ctx(), o.path(name), raw, true)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// claim also succeeds if the response was lost but the object is this worker's own.
func (o objects) claim(name string, raw []byte) error {
	err := remote.Put(o.ctx(), o.path(name), raw, true)
	if errors.Is(err, fs.ErrExist) {
		if have, e := o.read(name); e == nil && bytes.Equal(have, raw) {
			return nil
		}
	}
	return err
}

func (o objects) renew(name string, raw []byte) error { return o.write(name, raw) }

func (o objects) age(name string) (time.Duration, error) {
	info, err := remote.Stat(o.ctx(), o.path(name))
	if err != nil {
		return 0, err
	}
	if info.Size <= int64(len(expired)) { // released
		raw, err := o.read(name)
		if err == nil && string(raw) == expired {
			return time.Since(time.Unix(0, 0)), nil
		}
	}
	clock := o.path(".clock-" + worker().Worker)
	if err := remote.Put(o.ctx(), clock, []byte("now\n"), false); err != nil {
		return 0, err
	}
	now, err := remote.Stat(o.ctx(), clock)
	if err = errors.Join(err, remote.Remove(o.ctx(), clock)); err != nil {
		return 0, err
	}
	return now.ModTime.Sub(info.ModTime), nil
}

// expired is the content of a released lease, because the times of objects cannot be set.
const expired = "{}\n"

func (o objects) expire(name string) error { return o.write(name, []byte(expired)) }

func (o objects) remove(name string) error { return remote.Remove(o.ctx(), o.path(name)) }

func (o objects) progress(name string) (string, error) { return remote.Local(o.path(name), "") }
