package readers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"syscall"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"assay/data"
	"assay/onnx"
)

// arrowRows reads the files that `datasets` saves to disk: data-00000-of-0000N.arrow, IPC streams. The files are
// memory-mapped: batches hold a thousand rows of pictures, and only the requested rows cost memory.
type arrowRows struct {
	dir     string
	files   []arrowFile
	batches []arrowBatch
	rows    int
	open    int // index of the batch in rec; -1: none
	rec     arrow.RecordBatch
}

type arrowFile struct {
	path   string
	first  int // row
	mapped []byte
	schema arrowMessage
	names  []string
}

type arrowBatch struct {
	file  int
	first int // row
	arrowMessage
}

// arrowMessage is one message of a stream, in the mapped file.
type arrowMessage struct{ meta, body []byte }

func (m arrowMessage) message() *ipc.Message {
	return ipc.NewMessage(memory.NewBufferBytes(m.meta), memory.NewBufferBytes(m.body))
}

func openArrow(dir string, paths []string) (r *arrowRows, err error) {
	slices.Sort(paths)
	r = &arrowRows{dir: dir, open: -1}
	for _, path := range paths {
		if err := r.add(path); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), r.close())
		}
	}
	return r, nil
}

// add maps a file and finds its batches.
func (r *arrowRows) add(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return errors.New("not an arrow stream: the file is empty")
	}
	mapped, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	r.files = append(r.files, arrowFile{path: path, first: r.rows, mapped: mapped})
	file := &r.files[len(r.files)-1]
	defer func() {
		if p := recover(); p != nil { // flatbuffers are read without checks
			err = fmt.Errorf("damaged: %v", p)
		}
	}()
	for rest := mapped; ; {
		var m arrowMessage
		if m, rest, err = nextMessage(rest); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		switch kind := m.message().Type(); kind {
		case ipc.MessageSchema:
			if err := checkSchema(m.meta); err != nil {
				return err
			}
			file.schema = m
			if file.names, err = m.names(); err != nil {
				return err
			}
		case ipc.MessageRecordBatch:
			r.batches = append(r.batches, arrowBatch{len(r.files) - 1, r.rows, m})
			rec, err := r.load(len(r.batches) - 1)
			if err != nil {
				return err
			}
			r.rows += int(rec.NumRows())
			rec.Release()
		default:
			return fmt.Errorf("messages of type %v are not supported", kind)
		}
	}
	if file.schema.meta == nil {
		return errors.New("the stream has no schema")
	}
	return nil
}

// names are the column names of a schema.
func (m arrowMessage) names() (names []string, err error) {
	in, err := ipc.NewReaderFromMessageReader(&messages{list: []arrowMessage{m}})
	if err != nil {
		return nil, err
	}
	defer in.Release()
	for _, f := range in.Schema().Fields() {
		if slices.Contains(names, f.Name) {
			return nil, fmt.Errorf("two columns %q: rename one", f.Name)
		}
		names = append(names, f.Name)
	}
	return names, nil
}

// nextMessage splits the first message off a stream: a continuation marker, the length of the metadata, the metadata
// (a flatbuffer with the body's length), and the body. io.EOF at the end.
func nextMessage(b []byte) (m arrowMessage, rest []byte, err error) {
	if len(b) == 0 {
		return m, nil, io.EOF
	}
	if len(b) < 8 || binary.LittleEndian.Uint32(b) != 0xffffffff {
		return m, nil, errors.New("not an arrow stream")
	}
	n := int64(binary.LittleEndian.Uint32(b[4:]))
	if n == 0 {
		return m, nil, io.EOF
	}
	if b = b[8:]; n > int64(len(b)) {
		return m, nil, errors.New("the file is truncated")
	}
	m.meta, b = b[:n], b[n:]
	body := m.message().BodyLen()
	if body < 0 || body > int64(len(b)) {
		return m, nil, errors.New("the file is truncated")
	}
	m.body = b[:body]
	return m, b[body:], nil
}

func (r *arrowRows) len() int { return r.rows }

func (r *arrowRows) folder() string { return r.dir }

func (r *arrowRows) columns() []string {
	var all []string
	for _, f := range r.files {
		for _, name := range f.names {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func (r *arrowRows) has(column string) error {
	for _, f := range r.files {
		if !slices.Contains(f.names, column) {
			return noColumn(f.path, column, f.names)
		}
	}
	return nil
}

func (r *arrowRows) batch(i int) int {
	return sort.Search(len(r.batches)-1, func(b int) bool { return r.batches[b+1].first > i })
}

func (r *arrowRows) where(i int) string {
	f := r.files[r.batches[r.batch(i)].file]
	return fmt.Sprintf("%s: row %d", filepath.Base(f.path), i-f.first+1)
}

func (r *arrowRows) record(i int) (rec data.Record, err error) {
	b := r.batch(i)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: damaged: %v", r.where(i), p)
		}
	}()
	if b != r.open {
		next, err := r.load(b)
		if err != nil {
			return rec, fmt.Errorf("%s: %w", r.files[r.batches[b].file].path, err)
		}
		r.drop()
		r.rec, r.open = next, b
	}
	for c, field := range r.rec.Schema().Fields() {
		v, err := arrowValue(r.rec.Column(c), i-r.batches[b].first)
		if err != nil {
			return rec, fmt.Errorf("%s: column %q: %w", r.where(i), field.Name, err)
		}
		rec.Fields = append(rec.Fields, data.Field{Name: field.Name, Value: v})
	}
	return rec, nil
}

// load decodes batch b into columns whose values stay in the mapped file.
func (r *arrowRows) load(b int) (arrow.RecordBatch, error) {
	schema := r.files[r.batches[b].file].schema
	if schema.meta == nil {
		return nil, errors.New("a batch before the schema")
	}
	in, err := ipc.NewReaderFromMessageReader(&messages{list: []arrowMessage{schema, r.batches[b].arrowMessage}})
	if err != nil {
		return nil, err
	}
	defer in.Release()
	rec, err := in.Read()
	if err != nil {
		return nil, err
	}
	rec.Retain()
	return rec, nil
}

func (r *arrowRows) drop() {
	if r.rec != nil {
		r.rec.Release()
	}
	r.rec, r.open = nil, -1
}

func (r *arrowRows) close() error {
	r.drop()
	var errs []error
	for _, f := range r.files {
		errs = append(errs, syscall.Munmap(f.mapped))
	}
	r.files = nil
	return errors.Join(errs...)
}

// messages feeds in-memory messages to an ipc.Reader without copying them.
type messages struct{ list []arrowMessage }

func (m *messages) Message() (*ipc.Message, error) {
	if len(m.list) == 0 {
		return nil, io.EOF
	}
	next := m.list[0]
	m.list = m.list[1:]
	return next.message(), nil
}

func (m *messages) Retain()  {}
func (m *messages) Release() {}

// arrowValue returns a copy of element i as one of the types that a data.Record holds.
func arrowValue(a arrow.Array, i int) (any, error) {
	if a.IsNull(i) {
		return nil, nil
	}
	switch a := a.(type) {
	case *array.String:
		return string([]byte(a.Value(i))), nil
	case *array.LargeString:
		return string([]byte(a.Value(i))), nil
	case *array.Binary:
		return slices.Clone(a.Value(i)), nil
	case *array.LargeBinary:
		return slices.Clone(a.Value(i)), nil
	case *array.Boolean:
		return a.Value(i), nil
	case *array.Null:
		return nil, nil
	case *array.Struct:
		var rec data.Record
		for c, field := range a.DataType().(*arrow.StructType).Fields() {
			v, err := arrowValue(a.Field(c), i)
			if err != nil {
				return nil, err
			}
			rec.Fields = append(rec.Fields, data.Field{Name: field.Name, Value: v})
		}
		return rec, nil
	case array.ListLike:
		first, last := a.ValueOffsets(i)
		list := []any{}
		for k := first; k < last; k++ {
			v, err := arrowValue(a.ListValues(), int(k))
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	if x := arrowNumber(a, i); x != nil {
		return x, nil
	}
	if x := arrowTime(a, i); x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("values of type %s are not supported", a.DataType())
}

// arrowNumber returns a number as int64 or float64, or as text if it has neither; nil for other types.
func arrowNumber(a arrow.Array, i int) any {
	switch a := a.(type) {
	case *array.Float64:
		return a.Value(i)
	case *array.Float32:
		return float64(a.Value(i))
	case *array.Float16:
		return float64(onnx.Float16Value(a.Value(i).Uint16())) // the library's own Float32 is wrong below 2^-14
	case *array.Int64:
		return a.Value(i)
	case *array.Int32:
		return int64(a.Value(i))
	case *array.Int16:
		return int64(a.Value(i))
	case *array.Int8:
		return int64(a.Value(i))
	case *array.Uint64:
		if x := a.Value(i); x <= math.MaxInt64 {
			return int64(x)
		}
		return strconv.FormatUint(a.Value(i), 10) // a float64 would round it
	case *array.Uint32:
		return int64(a.Value(i))
	case *array.Uint16:
		return int64(a.Value(i))
	case *array.Uint8:
		return int64(a.Value(i))
	case *array.Decimal32, *array.Decimal64, *array.Decimal128, *array.Decimal256:
		if x, err := strconv.ParseFloat(a.ValueStr(i), 64); err == nil {
			return x
		}
	}
	return nil
}

// arrowTime returns a time, date or duration as a number of its unit, as they are read from Parquet; nil for other
// types.
func arrowTime(a arrow.Array, i int) any {
	switch a := a.(type) {
	case *array.Timestamp:
		return int64(a.Value(i))
	case *array.Date32:
		return int64(a.Value(i))
	case *array.Date64:
		return int64(a.Value(i))
	case *array.Time32:
		return int64(a.Value(i))
	case *array.Time64:
		return int64(a.Value(i))
	case *array.Duration:
		return int64(a.Value(i))
	}
	return nil
}
