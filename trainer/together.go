package trainer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/goccy/go-yaml"

	"assay/internal/workers"
	"assay/store"
)

// claim takes the run directory for the job, and tidies it.
func (k *ranks) claim(out string) (unlock func(), err error) {
	unlock = func() {}
	if k.first() {
		if err = os.MkdirAll(out, 0o777); err != nil {
			err = fmt.Errorf("the run directory %s: %w", out, err)
		} else if unlock, err = lock(out); err != nil {
			unlock = func() {}
		} else if err = tidy(out); err != nil {
			err = fmt.Errorf("the run directory %s: %w", out, err)
		}
	}
	if err := k.agree("taking the run directory", err); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// findShared is find for all ranks: the first one looks.
func (r *run) findShared(o *Options) (*state, string, error) {
	var found struct {
		Old *state
		Dir string
	}
	var err error
	if r.ranks.first() {
		found.Old, found.Dir, err = r.find(o)
	}
	if err := r.ranks.agree("looking for a checkpoint", err); err != nil {
		return nil, "", err
	}
	err = share(r.ranks, "the checkpoint's state", &found)
	return found.Old, found.Dir, err
}

// program is the digest of the running executable.
var program = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	digest, err := store.FileDigest(path)
	return digest.String()[:32], err
})

// sameRun refuses ranks with another program, configuration, backbone or table, or another idea of what is to be done.
func (r *run) sameRun(o *Options) error {
	if r.ranks == nil {
		return nil
	}
	digest, err := program()
	var tree map[string]any
	if err == nil {
		err = yaml.Unmarshal([]byte(r.state.Config), &tree)
	}
	if err := r.ranks.agree("looking at the program", err); err != nil {
		return err
	}
	facts := map[string]string{
		"program": digest, "architecture": runtime.GOARCH, "trained tensors": r.trains.Digest,
		"--fresh": fmt.Sprint(o.Fresh), "--resume": fmt.Sprint(o.Resume), "--force-resume": fmt.Sprint(o.Force),
	}
	for name, v := range flatten("", tree) {
		if name == "out" || !moved(name, v, v) {
			facts["configuration: "+name] = v
		}
	}
	for name, v := range r.state.Model {
		facts["model: "+name] = v
	}
	for name, v := range r.state.Data {
		facts["data: "+name] = v
	}
	for name, v := range r.state.Benchmark {
		facts[benchmarkPrefix+name] = v
	}
	return r.ranks.same("what is trained", facts)
}

// sameRows refuses ranks that have rows otherwise, or parameters.
func (r *run) sameRows() error {
	if r.ranks == nil {
		return nil
	}
	facts := map[string]string{"parameters": r.digest()}
	for name, part := range map[string]Examples{"training rows": r.data.Train, "validation rows": r.valid} {
		h := sha256.New()
		if s, ok := part.(*Samples); ok {
			for i := range s.rows {
				fmt.Fprintf(h, "%q %q %q %q\n", s.rows[i].id, s.rows[i].digest, s.rows[i].group, s.rows[i].bad)
			}
		}
		facts[name] = fmt.Sprintf("%d, %s", part.Len(), hex.EncodeToString(h.Sum(nil))[:32])
	}
	return r.ranks.same("rows and parameters", facts)
}

// sameParams makes sure that all ranks still have the same parameters.
func (r *run) sameParams() error {
	if r.ranks == nil {
		return nil
	}
	return r.ranks.same(fmt.Sprintf("parameters after step %d", r.state.Step), map[string]string{"parameters": r.digest()})
}

// digest is that of all parameters.
func (r *run) digest() string {
	h, b := sha256.New(), make([]byte, 0, 4<<12)
	for _, p := range r.params {
		for part := range slices.Chunk(p.Floats(), 1<<12) {
			b = b[:0]
			for _, v := range part {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			}
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// unlike lists what two processes have otherwise.
func unlike(zero, other map[string]string) (out []string) {
	all := maps.Clone(zero)
	maps.Copy(all, other)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a, b := zero[name], other[name]
		if a != b {
			out = append(out, fmt.Sprintf("%s: %s there, %s here", name, short(a), short(b)))
		}
	}
	return out
}

// tellBad makes known to all ranks which rows each found that cannot be used.
func (k *ranks) tellBad(rows []*sampleRow, err error) error {
	if k == nil {
		return err
	}
	if err := k.agree("checking rows", err); err != nil {
		return err
	}
	found := map[int]string{}
	for i, row := range rows {
		if k.mine(i) && row.bad != "" {
			found[i] = row.bad
		}
	}
	all, err := gather(k, "rows that cannot be used", found)
	if err != nil {
		return err
	}
	for _, found := range all {
		for i, why := range found {
			if i < len(rows) { // else the tables differ, which comes out next
				rows[i].bad = why
			}
		}
	}
	return nil
}

// aside is setAside for all ranks, which must find the same rows.
func (r *run) aside(batch []Example, valid bool, err error) error {
	k := r.ranks
	if k == nil {
		return r.setAside(batch, valid, err)
	}
	if !Agreed(err) { // the ranks have lost each other
		return err
	}
	left := r.setAside(batch, valid, err)
	bad := map[string]string{"after it": fmt.Sprint(left == nil)}
	for _, b := range r.badRows() {
		bad[fmt.Sprintf("row %d of %s", b.Row, b.Table)] = b.Reason
	}
	if err := k.same("rows that are set aside", bad); err != nil {
		return fmt.Errorf("%w\nafter %w", err, left)
	}
	if left != nil && !Agreed(left) {
		return &agreedError{left}
	}
	return left
}

// prepareShare lets a model that wants to see all examples see a share of them on each rank first: what one computes
// all find in the store.
func (r *run) prepareShare(ctx context.Context, p Preparer, examples iter.Seq2[Example, error], done func(int)) error {
	k := r.ranks
	if k == nil {
		return nil
	}
	i := -1
	err := p.Prepare(ctx, func(yield func(Example, error) bool) {
		for e, err := range examples {
			if i++; k.mine(i) && !yield(e, err) {
				return
			}
		}
	}, done)
	return k.agree("computing hidden states", err)
}

// sameMicroBatch takes the least number of samples of a micro-batch that any rank has chosen.
func (r *run) sameMicroBatch() error {
	k := r.ranks
	if k == nil {
		return nil
	}
	all, err := gather(k, "micro-batch", r.state.MicroBatch)
	if err == nil {
		r.state.MicroBatch = slices.Min(all)
	}
	return err
}

// idle tells that some ranks will have nothing to do.
func (r *run) idle(warn func(string)) {
	k := r.ranks
	if k == nil || warn == nil || r.groups != nil {
		return
	}
	if n := (r.config.BatchSize + r.state.MicroBatch - 1) / r.state.MicroBatch; n < k.Size() {
		warn(fmt.Sprintf("a step has %d micro-batches of %d samples, so that %d of %d ranks have nothing to do: a smaller "+
			"micro_batch or a larger batch_size shares it out", n, r.state.MicroBatch, k.Size()-n, k.Size()))
	}
}

// scored is what a rank tells of a micro-batch of validation rows.
type scored struct {
	Failed   verdict
	Scores   []float64 // of scorers
	Text     TextMeasure
	Examples []Example // what is measured of them
}

// measurer measures a micro-batch of validation rows. With an error it gives nothing.
type measurer func(ctx context.Context, batch []Example) (scored, error)

// overBatches measures the first n validation rows, a micro-batch at a time.
func (r *run) overBatches(ctx context.Context, n int, measure measurer) (out []scored, err error) {
	for lo := 0; lo < n; lo += r.state.MicroBatch {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var s scored
		_, err := r.overRows(lo, min(lo+r.state.MicroBatch, n), func(batch []Example) (err error) {
			s, err = measure(context.WithoutCancel(ctx), batch)
			return err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// measured is what is measured of examples, without their pictures.
func measured(batch []Example) (out []Example) {
	for i := range batch {
		out = append(out, Example{Index: batch[i].Index, Label: batch[i].Label, Said: batch[i].Said})
	}
	return out
}

// shareValidation is overBatches by all ranks: each measures a micro-batch of as many as there are ranks.
func (r *run) shareValidation(ctx context.Context, n int, measure measurer) (out []scored, err error) {
	if r.ranks == nil {
		return r.overBatches(ctx, n, measure)
	}
	if err := r.sameParams(); err != nil {
		return nil, err
	}
	micro := r.state.MicroBatch
	for lo := 0; lo < n; {
		if err := r.stopped(ctx); err != nil {
			return nil, err
		}
		round, err := r.measureRound(context.WithoutCancel(ctx), lo, n, measure)
		if err != nil {
			return nil, err
		}
		failed := slices.IndexFunc(round, func(s scored) bool { return s.Failed.Text != "" })
		if failed >= 0 { // look at its rows, and try again without those that are bad
			at := lo + failed*micro
			batch, _ := r.validRows(at, min(at+micro, n))
			err := &agreedError{r.ranks.of(failed, errors.New(round[failed].Failed.Text))}
			if err := r.aside(batch, true, err); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, round...)
		lo += micro * len(round)
	}
	return out, nil
}

// measureRound measures a micro-batch of validation rows from lo on, on every rank.
func (r *run) measureRound(ctx context.Context, lo, n int, measure measurer) ([]scored, error) {
	k, micro := r.ranks, r.state.MicroBatch
	k.Doing(fmt.Sprintf("validation at step %d", r.state.Step))
	var mine scored
	if at := lo + k.Rank()*micro; at < n {
		_, err := r.tryRows(at, min(at+micro, n), func(batch []Example) (err error) {
			mine, err = measure(ctx, batch)
			return err
		})
		mine.Failed = verdictOf(err)
	}
	return gather(k, fmt.Sprintf("validation at step %d, row %d", r.state.Step, lo+1), mine)
}

// sum adds a micro-batch's gradients to those of the batch.
func (r *run) sum(out *StepResult) {
	workers.Do(len(r.params), func(i int) {
		sum := r.grads[i]
		for j, v := range out.Grads[i].Float32s() {
			sum[j] += v
		}
	})
}

// leastReleased is the memory of gradients from which on it is worth a collection.
const leastReleased = 8 << 20

// release lets go of a run's gradients, which are summed, and collects them with those of the run before. Left to
// itself the collector waits until they are as large as all that lives: parameters, sums and moments together.
func (r *run) release(out *StepResult) {
	if len(out.Grads) == 0 {
		return
	}
	var bytes int64
	for _, g := range out.Grads {
		bytes += 4 * int64(g.DataSize())
	}
	out.Grads = nil
	if r.released += bytes; r.released >= max(leastReleased, 2*bytes) {
		runtime.GC()
		r.released = 0
	}
}
