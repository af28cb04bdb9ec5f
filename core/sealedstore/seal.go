package sealedstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// format is the version of the sealed text and of its layout. A reader refuses others.
const format = "1"

// mark is the header of a record whose Body is sealed. Processes without the seal refuse such a record.
var mark = storage.Field{Op: storage.Sealed, Name: "format", Value: format}

// sketchMark begins the Sketch of an unreplayable record, which has neither header nor
// body: stores keep none. It differs from the beginning of a plain sketch, so that a
// process without the seal explains no mismatch by it.
const sketchMark = "sealed " + format + "\n"

// seal returns the result as the next store is to keep it. Nothing of it is the caller's
// memory.
func (s *Store) seal(ctx context.Context, l *storage.Lease, res storage.Result) (storage.Result, error) {
	if res.State == storage.Unreplayable {
		res.Header, res.Body = nil, nil
	}
	sealed, err := s.encrypt(ctx, encode(&res), associated(l.Key, res.State, res.Status, l.Fingerprint, l.Digest))
	if err != nil {
		return storage.Result{}, fmt.Errorf("seal the response: %w", err)
	}
	if res.State == storage.Unreplayable {
		res.Sketch = append([]byte(sketchMark), sealed...)
	} else {
		res.Header, res.Body, res.Sketch = storage.Header{mark}, sealed, nil
	}
	return res, nil
}

// open returns the record as it was before it was sealed.
func (s *Store) open(ctx context.Context, key string, found *storage.Record) (*storage.Record, error) {
	sealed, err := sealedPart(found)
	switch {
	case err != nil:
		return nil, err
	case !hasResponse(found):
		return s.openRecordSteps(ctx, key, found)
	case sealed == nil && s.readPlain:
		return found, nil
	case sealed == nil:
		return nil, records.Corrupt("it is not sealed")
	}
	plain, err := s.decrypt(ctx, sealed, associated(key, found.State, found.Status, found.Fingerprint, found.Digest))
	switch {
	case isUnavailable(err):
		return nil, fmt.Errorf("%w: %w", storage.ErrUnreadable, err)
	case err != nil:
		return nil, fmt.Errorf("%w: it cannot be decrypted: %w", storage.ErrCorruptRecord, err)
	}
	opened := *found // which is shared
	if err := decode(plain, &opened); err != nil {
		return nil, err
	}
	return &opened, nil
}

// sealedPart returns the ciphertext of a record, or nil when the record is plain.
func sealedPart(found *storage.Record) ([]byte, error) {
	if found.State == storage.Unreplayable {
		sealed, is := bytes.CutPrefix(found.Sketch, []byte(sketchMark))
		if !is {
			return nil, nil
		}
		return sealed, nil
	}
	for _, field := range found.Header {
		if field.Op != storage.Sealed {
			continue
		}
		if field != mark || len(found.Header) > 1 || len(found.Sketch) > 0 || len(found.Body) == 0 {
			return nil, records.Corrupt("it has %d header fields, a sketch of %d bytes, a body of %d and the seal %.20q %.20q, want %q %q alone and a body",
				len(found.Header), len(found.Sketch), len(found.Body), field.Name, field.Value, mark.Name, mark.Value)
		}
		return found.Body, nil
	}
	return nil, nil
}

// hasResponse reports whether a record has a response, or anything else that has to be sealed. An
// unreplayable record with no more than a status is plain: an operator settles a key without the
// key of the seal, and the next store may have lost a response that it keeps apart.
func hasResponse(r *storage.Record) bool {
	return r.State == storage.Completed || r.State == storage.Failed || len(r.Header)+len(r.Body)+len(r.Sketch) > 0
}

// associated returns the associated data: a hash, because key services log it and limit
// its length.
func associated(key string, state storage.State, status int, fingerprint string, digest storage.Digest) []byte {
	sum := frame.Sum("oncekey sealed record "+format, key, state.String(), strconv.Itoa(status), fingerprint, string(digest[:]))
	return sum[:]
}

// encode writes header, sketch and body as one text: the number of fields, for each of
// them its operation, name and value, the sketch, and the body up to the end. Name, value
// and sketch stand after their lengths.
func encode(res *storage.Result) []byte {
	size := 2*binary.MaxVarintLen64 + len(res.Sketch) + len(res.Body)
	for _, field := range res.Header {
		size += 1 + 2*binary.MaxVarintLen64 + len(field.Name) + len(field.Value)
	}
	plain := binary.AppendUvarint(make([]byte, 0, size), uint64(len(res.Header)))
	for _, field := range res.Header {
		plain = append(plain, byte(field.Op))
		plain = append(binary.AppendUvarint(plain, uint64(len(field.Name))), field.Name...)
		plain = append(binary.AppendUvarint(plain, uint64(len(field.Value))), field.Value...)
	}
	plain = append(binary.AppendUvarint(plain, uint64(len(res.Sketch))), res.Sketch...)
	return append(plain, res.Body...)
}

// decode is the inverse of encode. Empty parts are nil.
func decode(plain []byte, r *storage.Record) error {
	rest := reader{plain}
	fields, readable := rest.length()
	if !readable {
		return errPlain
	}
	r.Header = nil
	if fields > 0 {
		r.Header = make(storage.Header, fields)
	}
	for i := range r.Header {
		op, there := rest.take(1)
		name, hasName := rest.text()
		value, hasValue := rest.text()
		if !there || !hasName || !hasValue {
			return errPlain
		}
		r.Header[i] = storage.Field{Op: storage.FieldOp(op[0]), Name: string(name), Value: string(value)}
	}
	if r.Sketch, readable = rest.text(); !readable {
		return errPlain
	}
	r.Body = nil
	if len(rest.left) > 0 {
		r.Body = rest.left
	}
	return nil
}

// errPlain says that the keys are right and the text is not this format's.
var errPlain = records.Corrupt("what was sealed is no response")

// reader takes a text apart from the front.
type reader struct{ left []byte }

// length reads a length that is at most the text's own.
func (r *reader) length() (int, bool) {
	n, size := binary.Uvarint(r.left)
	if size <= 0 || n > uint64(len(r.left)) {
		return 0, false
	}
	r.left = r.left[size:]
	return int(n), true
}

func (r *reader) take(n int) ([]byte, bool) {
	if n > len(r.left) {
		return nil, false
	}
	taken := r.left[:n:n]
	r.left = r.left[n:]
	return taken, true
}

// text reads a text after its length. An empty one is nil.
func (r *reader) text() ([]byte, bool) {
	n, readable := r.length()
	if !readable || n == 0 {
		return nil, readable
	}
	return r.take(n)
}

// try seals a text and opens it.
func (s *Store) try(ctx context.Context) error {
	trial, data := []byte("a trial"), associated("a trial", 0, 0, "", storage.Digest{})
	sealed, err := s.encrypt(ctx, trial, data)
	if err == nil {
		var opened []byte
		if opened, err = s.decrypt(ctx, sealed, data); err == nil && !bytes.Equal(opened, trial) {
			err = errors.New("it returned another text")
		}
	}
	switch {
	case err == nil:
		s.seals.Store(true)
		return nil
	case isUnavailable(err):
		return err
	default:
		return fmt.Errorf("%w: the AEAD does not open what it seals: %w", storage.ErrStoreForbidden, err)
	}
}
