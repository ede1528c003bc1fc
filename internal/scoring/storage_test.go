//go:build cloud

package scoring

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/data"
	"assay/internal/remote"
	"assay/internal/remote/s3test"
	"assay/internal/table"
)

// TestTableOnFileDriver and TestTableOnS3: a table on object storage gives the same results as files.
func TestTableOnFileDriver(t *testing.T) { tableOnStorage(t, "file://"+t.TempDir()) }

func TestTableOnS3(t *testing.T) {
	s3test.Start(t, "tables")
	tableOnStorage(t, "s3://tables/some folder")
}

// TestS3Outage: a row for which storage fails costs the attempts for only one picture, because each may take long.
func TestS3Outage(t *testing.T) {
	client, endpoint := s3test.Start(t, "outage")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	table := filepath.Join(t.TempDir(), "one.jsonl")
	line := `{"source": "a.png", "edit": "b.png", "instruction": "paint it"}` + "\n"
	if err := os.WriteFile(table, []byte(line), 0o666); err != nil {
		t.Fatal(err)
	}
	s3test.Put(t, client, "outage", "some folder", table)
	var failed atomic.Int64
	s3test.Between(t, endpoint, func(w http.ResponseWriter, r *http.Request, behind http.Handler) {
		if strings.HasSuffix(r.URL.Path, ".png") {
			failed.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		behind.ServeHTTP(w, r)
	})
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	pause := remote.FirstPause
	remote.FirstPause = time.Millisecond
	defer func() { remote.FirstPause = pause }()
	o := options("s3://outage/some folder/one.jsonl", filepath.Join(t.TempDir(), "out.jsonl"))
	if _, err := Table(t.Context(), &redJudge{}, o); !remote.Failed(err) || failed.Load() != 6 {
		t.Errorf("%d requests, want 6: %v", failed.Load(), err)
	}
}

// tableOnStorage copies tables to storage, with separate and with embedded pictures. An interrupted run resumes from
// the journal on this machine.
func tableOnStorage(t *testing.T, folder string) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ctx := context.Background()
	in := writeTable(t)
	embedded := embed(t, in)
	files, err := os.ReadDir(filepath.Dir(in))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(filepath.Dir(in), f.Name()))
		if err == nil {
			err = remote.Write(ctx, remote.Join(folder, f.Name()), func(w io.Writer) error {
				_, err := w.Write(raw)
				return err
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	beside := storageRun(t, folder, "in.jsonl", "out.jsonl")
	local := filepath.Join(t.TempDir(), "out.jsonl")
	if err := os.WriteFile(local, beside, 0o666); err != nil {
		t.Fatal(err)
	}
	checkScores(t, local, nil)
	o := options(embedded, filepath.Join(t.TempDir(), "want.parquet"))
	if _, err := Table(ctx, &redJudge{}, o); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	if got := storageRun(t, folder, filepath.Base(embedded), "out.parquet"); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want the %d of a file", len(got), len(want))
	}
}

// embed writes the table's readable rows with embedded pictures.
func embed(t *testing.T, in string) string {
	t.Helper()
	table, err := data.OpenTable(in)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	out := filepath.Join(filepath.Dir(in), "embedded.parquet")
	err = data.WriteTable(out, func(yield func(data.Row, error) bool) {
		for row, err := range table.All() {
			raw, missing := row.Edit.Read(table.Folder(), data.Limits{})
			if missing != nil {
				continue
			}
			row.Edit.Bytes = raw
			row.Source.Bytes, err = row.Source.Read(table.Folder(), data.Limits{})
			if !yield(row, err) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// storageRun scores a table of the folder, in a run that is interrupted and one that resumes.
func storageRun(t *testing.T, folder, in, out string) []byte {
	t.Helper()
	o := options(remote.Join(folder, in), remote.Join(folder, out))
	ctx, cancel := context.WithCancel(context.Background())
	var stopped *table.InterruptedError
	if _, err := Table(ctx, &redJudge{cancel: cancel}, o); !errors.As(err, &stopped) {
		t.Fatal(err)
	}
	if _, err := remote.Stat(context.Background(), o.Out); !remote.IsMissing(err) {
		t.Errorf("an unfinished run wrote its table: %v", err)
	}
	s := &redJudge{}
	// The row whose picture is missing was interrupted, and is not scored.
	if _, err := Table(context.Background(), s, o); err != nil || s.asked != 0 {
		t.Fatalf("%v: %d rows were scored again", err, s.asked)
	}
	if _, err := os.Stat(stopped.Journal); !errors.Is(err, os.ErrNotExist) {
		t.Error("the progress is left behind")
	}
	raw, err := remote.ReadFile(context.Background(), o.Out)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
