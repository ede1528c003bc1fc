//go:build cloud

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azureblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/fileblob"  // file://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/memblob"   // mem://, in tests
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"
)

// Built reports whether the program includes the drivers for object storage.
const Built = true

// openBucket opens scheme://bucket.
func openBucket(ctx context.Context, name string) (driver, error) {
	var b *blob.Bucket
	var err error
	scheme, host, _ := strings.Cut(name, "://")
	switch scheme {
	case "s3":
		b, err = openS3(ctx, host)
	case "file": // temporaries next to the written files, and no attribute files
		b, err = blob.OpenBucket(ctx, "file:///?no_tmp_dir=true&metadata=skip")
	default:
		b, err = blob.OpenBucket(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	return &cloudBucket{name: name, bucket: b}, nil
}

// openS3 reads the same settings as AWS's own tools: AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL, ~/.aws and so on. For
// endpoints other than Amazon's it uses path-style URLs, http://endpoint/bucket/key, because bucket.endpoint rarely
// resolves there.
func openS3(ctx context.Context, bucket string) (*blob.Bucket, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		if o.UsePathStyle = o.BaseEndpoint != nil; o.UsePathStyle && o.Region == "" {
			o.Region = "us-east-1"
		}
	})
	return s3blob.OpenBucket(ctx, client, bucket,
		&s3blob.Options{RequestChecksumCalculation: cfg.RequestChecksumCalculation})
}

type cloudBucket struct {
	name   string // scheme://bucket
	bucket *blob.Bucket
	there  atomic.Bool // a request for one of its objects has succeeded

	granted atomic.Pointer[string] // key of the last object read
}

func (b *cloudBucket) stat(ctx context.Context, key string) (Info, error) {
	a, err := b.bucket.Attributes(ctx, key)
	if err != nil {
		return Info{}, b.failed(ctx, err)
	}
	b.reads(key)
	info := Info{Size: a.Size, ModTime: a.ModTime, Version: a.ETag}
	var google storage.ObjectAttrs
	if a.As(&google) {
		info.generation = google.Generation
	}
	return info, nil
}

func (b *cloudBucket) read(ctx context.Context, key string, from, most int64) (Range, error) {
	r, err := b.bucket.NewRangeReader(ctx, key, from, most, nil)
	if from == 0 && status(err) == http.StatusRequestedRangeNotSatisfiable { // an empty object has no ranges
		info, err := b.stat(ctx, key)
		if err == nil && info.Size > 0 {
			err = &Error{Err: errors.New("it changed while it was being read"), kind: passing}
		}
		return Range{Info: Info{ModTime: info.ModTime}}, err
	}
	if err != nil {
		return Range{}, b.failed(ctx, err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil { // the connection broke
		return Range{}, &Error{Err: err, kind: passing}
	}
	b.reads(key)
	info := Info{Size: r.Size(), ModTime: r.ModTime()}
	var google *storage.Reader
	var amazon s3.GetObjectOutput
	var azure azureblob.DownloadStreamResponse
	switch {
	case r.As(&google):
		info.generation = google.Attrs.Generation
	case r.As(&amazon) && amazon.ETag != nil:
		info.Version = *amazon.ETag
	case r.As(&azure) && azure.ETag != nil:
		info.Version = string(*azure.ETag)
	}
	return Range{raw, info}, nil
}

// reads records that an object could be read.
func (b *cloudBucket) reads(key string) {
	b.there.Store(true)
	b.granted.Store(&key)
}

// partBytes is the part size of an upload. S3 allows 10,000 parts: 160 GB.
const partBytes = 16 << 20

func (b *cloudBucket) write(ctx context.Context, key string, o writing) error {
	options := &blob.WriterOptions{ContentType: "application/octet-stream", BufferSize: partBytes, MaxConcurrency: 2,
		IfNotExist: o.fresh}
	if strings.HasPrefix(b.name, "s3://") || strings.HasPrefix(b.name, "azblob://") {
		return b.upload(ctx, key, o.fill, options)
	}
	one, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.bucket.NewWriter(one, key, options)
	if err != nil {
		return b.failed(ctx, err)
	}
	to := &noted{to: w}
	if err := o.fill(to); err != nil {
		cancel() // before Close, which then aborts the upload
		w.Close()
		if to.err != nil {
			return b.failed(ctx, to.err)
		}
		return err
	}
	if err := w.Close(); err != nil {
		return b.failed(ctx, err)
	}
	b.there.Store(true)
	return nil
}

// lastWords is how long an aborted upload may take to clean up.
const lastWords = 30 * time.Second

// upload writes an object on S3 or Azure. The library removes the parts of an upload if its source fails, but not if
// its context ends, so an interrupt becomes an error of the source. (Its writer for Azure panics when closed after a
// failed upload.)
func (b *cloudBucket) upload(
	ctx context.Context, key string, fill func(io.Writer) error, options *blob.WriterOptions,
) error {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	source, to := io.Pipe()
	defer context.AfterFunc(ctx, func() {
		to.CloseWithError(context.Cause(ctx))
		time.AfterFunc(lastWords, cancel)
	})()
	var own error // error of fill
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		written := &noted{to: to}
		err := fill(written)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil && written.err == nil {
			own = err
		}
		to.CloseWithError(err)
	}()
	err := b.bucket.Upload(late, key, source, options)
	source.CloseWithError(errors.New("the upload has ended"))
	<-filled
	switch {
	case own != nil:
		return own
	case ctx.Err() != nil && err != nil:
		return &Error{Err: context.Cause(ctx)}
	case err != nil:
		return b.failed(ctx, err)
	}
	b.there.Store(true)
	return nil
}

// noted records the error of the underlying writer.
type noted struct {
	to  io.Writer
	err error
}

func (n *noted) Write(p []byte) (int, error) {
	k, err := n.to.Write(p)
	if err != nil {
		n.err = err
	}
	return k, err
}

func (b *cloudBucket) remove(ctx context.Context, key string) error {
	if err := b.bucket.Delete(ctx, key); err != nil {
		return b.failed(ctx, err)
	}
	return nil
}

// failed converts the error of a request to an *Error.
func (b *cloudBucket) failed(ctx context.Context, err error) error {
	code := status(err)
	if refusal(code) && b.expired(ctx) {
		return &Error{Err: fmt.Errorf("access denied, also to an object that could be read before: have the credentials "+
			"expired? %w", said(err)), kind: passing}
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return b.notFound(ctx, code, err)
	case gcerrors.PermissionDenied:
		return &Error{Err: fmt.Errorf("access denied (storage also says so of a missing object if the bucket may "+
			"not be listed): %w", said(err)), kind: forbidden}
	case gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
		return &Error{Err: err, kind: exists}
	case gcerrors.InvalidArgument, gcerrors.Unimplemented, gcerrors.Canceled:
		return &Error{Err: err}
	}
	switch {
	case code == 0 && strings.Contains(strings.ToLower(err.Error()), "credential"):
		return &Error{Err: fmt.Errorf("no credentials (use those of the cloud's own tools): %w", err)}
	case code == 0 || code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout ||
		code == http.StatusConflict:
		return &Error{Err: err, kind: passing}
	}
	return &Error{Err: said(err)}
}

// refusal reports whether a status may be caused by credentials: Amazon returns 400 for expired ones.
func refusal(code int) bool {
	return code == http.StatusBadRequest || code == http.StatusUnauthorized || code == http.StatusForbidden
}

// expired reports whether an object that could be read before is now refused. Then nothing is known about the
// requested object, and its row must not fail permanently.
func (b *cloudBucket) expired(ctx context.Context) bool {
	key := b.granted.Load()
	if key == nil {
		return false
	}
	_, err := b.bucket.Attributes(ctx, *key)
	return refusal(status(err))
}

// said returns the error of the storage without the request id, so that the errors of rows are the same in every run.
func said(err error) error {
	var aws interface {
		ErrorCode() string
		ErrorMessage() string
	}
	var azure *azcore.ResponseError
	switch {
	case errors.As(err, &aws):
		return fmt.Errorf("%d %s: %s", status(err), aws.ErrorCode(), aws.ErrorMessage())
	case errors.As(err, &azure):
		return fmt.Errorf("%d %s", azure.StatusCode, azure.ErrorCode)
	}
	return err
}

// notFound distinguishes a missing object from a missing bucket.
func (b *cloudBucket) notFound(ctx context.Context, code int, err error) error {
	if code == http.StatusMovedPermanently {
		return &Error{Err: fmt.Errorf("the bucket %s is in another region (for S3, set AWS_REGION): %w", b.name, err)}
	}
	if !b.there.Load() {
		if ok, e := b.bucket.IsAccessible(ctx); e == nil && !ok {
			return &Error{Err: fmt.Errorf("there is no bucket %s", b.name)}
		}
	}
	return &Error{Err: errors.New("there is no such object"), kind: missing}
}

// status returns the HTTP status of a response, 0 if there was none.
func status(err error) int {
	var aws interface{ HTTPStatusCode() int }
	var google *googleapi.Error
	var azure *azcore.ResponseError
	switch {
	case errors.As(err, &aws):
		return aws.HTTPStatusCode()
	case errors.As(err, &google):
		return google.Code
	case errors.As(err, &azure):
		return azure.StatusCode
	}
	return 0
}
