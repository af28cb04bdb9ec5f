package memstore

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// An entry reads back as it was written, whatever follows it in the chunk and is
// appended later.
func FuzzEntry(f *testing.F) {
	digits := strings.Repeat("0123456789abcdef", 4)
	f.Add(digits, "sha256:"+digits, "Content-Type", "application/json", []byte("body"), []byte("sketch"), 1, 201, uint64(1))
	f.Add("key", "fingerprint", "", "", []byte{}, []byte{}, 7, -1, uint64(1<<63))
	f.Add(strings.ToUpper(digits), "sha256:"+digits[1:], strings.Repeat("n", 127), strings.Repeat("v", 128), make([]byte, 20_000), []byte{0}, 2, 1<<30, uint64(128))
	store := New()
	f.Fuzz(func(t *testing.T, key, fingerprint, field, value string, body, sketch []byte, fields, status int, attempt uint64) {
		res := storage.Result{State: storage.Failed, Status: status, Body: body, Sketch: sketch, Retain: time.Duration(attempt >> 2), Remember: time.Duration(attempt >> 1)}
		for n := range fields & 7 {
			res.Header = append(res.Header, storage.Field{Op: storage.FieldOp(n), Name: field[:min(n*9, len(field))], Value: value})
		}
		l := storage.Lease{Claim: storage.Claim{Key: key, Fingerprint: fingerprint, Token: storage.NewToken()}, Attempt: attempt}
		l.Digest[attempt%uint64(len(l.Digest))] = byte(status) // at times none
		if size := len(field); size%2 == 1 {
			l.Origin = storage.Origin{Route: field, Holder: value, KeyHash: fingerprint, Trace: field[:size/2], Program: field[:size/3]}
		}
		n := store.identify(key)
		d := newDraft(&n, &l, &res)
		d.run = time.Duration(uint32(status)) * time.Millisecond
		chunk := d.appendTo(make([]byte, 0, 2*d.limit()))
		size := len(chunk)
		if size > d.limit() {
			t.Errorf("the entry takes %d bytes, and its limit was %d", size, d.limit())
		}
		e := entry(chunk[:cap(chunk)])
		e.setRun(d.run)
		e.setExpires(res.Retain)
		p := e.parts()
		if p.size != size || p.remember != res.Remember || e.cost(&p) != d.cost() || !e.isOf(&l) || e.key() != key || *e.identity() != n.id {
			t.Errorf("size %d, cost %d, of the lease: %t, key %q, want %d, %d, true, %q", p.size, e.cost(&p), e.isOf(&l), e.key(), size, d.cost(), key)
		}
		checkTombstone(t, &n, l, status)
		for _, expected := range []string{strings.Clone(fingerprint), "", "sha256:" + digits} {
			record := e.record(expected, store.epoch)
			_ = append(chunk, bytes.Repeat([]byte{0xff}, size)...) // the next entry
			checkRecord(t, record, &d, store.epoch)
		}
		if summary := e.summary(store.epoch); summary.Origin != l.Origin || summary.Fingerprint != fingerprint || summary.Digest != l.Digest || summary.Status != status || summary.Header != nil || summary.Body != nil {
			t.Errorf("the summary is %+v", summary)
		}
	})
}

// checkTombstone expects a tombstone of the lease to read back as it was written.
func checkTombstone(t *testing.T, n *name, l storage.Lease, status int) {
	t.Helper()
	l.Origin = storage.Origin{}
	d := newTombstone(n, &l, status)
	chunk := d.appendTo(make([]byte, 0, d.limit()))
	size := len(chunk)
	chunk = append(chunk, 0xff) // the next entry
	e := entry(chunk)
	if p := e.parts(); p.size != size || e.cost(&p) != d.cost() || p.remember != 0 || e.isOf(&l) || e.key() != l.Key || *e.identity() != n.id {
		t.Errorf("the tombstone has size %d, cost %d, key %q, want %d, %d, %q", p.size, e.cost(&p), e.key(), size, d.cost(), l.Key)
	}
	want := &storage.Record{State: storage.Expired, Fingerprint: l.Fingerprint, Digest: l.Digest, Attempt: l.Attempt, Status: status}
	want.Expires = time.Time{}.Add(e.expires())
	if r := e.record("", time.Time{}); !reflect.DeepEqual(r, want) {
		t.Errorf("the tombstone is %+v, want %+v", r, want)
	}
}

func checkRecord(t *testing.T, got *storage.Record, d *draft, epoch time.Time) {
	t.Helper()
	l, res := d.lease, d.result
	want := &storage.Record{
		State: res.State, Fingerprint: l.Fingerprint, Digest: l.Digest, Attempt: l.Attempt, Status: res.Status, Header: res.Header, Body: res.Body, Sketch: res.Sketch,
		Origin: l.Origin, Expires: epoch.Add(res.Retain),
	}
	want.Finished = want.Expires.Add(-res.Retain.Truncate(time.Millisecond))
	want.Created = want.Finished.Add(-d.run)
	if len(want.Body) == 0 {
		want.Body = nil
	}
	if len(want.Sketch) == 0 {
		want.Sketch = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the record is %+v, want %+v", got, want)
	}
}
