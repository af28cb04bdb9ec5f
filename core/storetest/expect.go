package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// acquire calls Acquire. It fails on an error, and on a return of both a lease and a
// record, or neither.
func (f *fixture) acquire(request storage.Request) (storage.Lease, *storage.Record) {
	f.Helper()
	c := request.Claim()
	lease, record, err := f.store.Acquire(f.Context(), request)
	switch {
	case err != nil:
		f.Fatalf("Acquire: %v", err)
	case record != nil && lease != (storage.Lease{}):
		f.Fatalf("Acquire returned a record, %s, and a lease, attempt %d: want one of them", record.State, lease.Attempt)
	case record == nil && lease == (storage.Lease{}):
		f.Fatal("Acquire returned neither a lease nor a record")
	case record == nil && lease.Claim != c:
		f.Fatalf("the lease is for %+v, want the claim %+v", lease.Claim, c)
	}
	return lease, record
}

// win expects that the claim gets the lease.
func (f *fixture) win(request storage.Request, attempt uint64, tookOver bool) storage.Lease {
	f.Helper()
	lease, record := f.acquire(request)
	if record != nil {
		f.Fatalf("Acquire found a record, %s: want the lease", describe(record))
	}
	f.isLease(lease, attempt, tookOver)
	return lease
}

func (f *fixture) isLease(l storage.Lease, attempt uint64, tookOver bool) {
	f.Helper()
	if l.Attempt != attempt || l.TookOver != tookOver {
		f.Fatalf("Acquire got attempt %d with TookOver %t, want %d with %t", l.Attempt, l.TookOver, attempt, tookOver)
	}
}

// find expects that the claim does not get the lease, and returns the record.
func (f *fixture) find(request storage.Request) *storage.Record {
	f.Helper()
	lease, record := f.acquire(request)
	if record == nil {
		f.Fatalf("Acquire got the lease, attempt %d: want a record", lease.Attempt)
	}
	return record
}

// holds expects the lease to be running.
func (f *fixture) holds(l storage.Lease) {
	f.Helper()
	if r := f.find(f.takeOver()); r.State != storage.InProgress || r.Attempt != l.Attempt || r.LeaseLeft <= 0 {
		f.Fatalf("the store holds %s, want attempt %d in progress", describe(r), l.Attempt)
	} else {
		f.isOf(r, l)
	}
}

// isAbandoned expects the record of an attempt whose lease has ended.
func (f *fixture) isAbandoned(r *storage.Record, attempt uint64) {
	f.Helper()
	if !r.Abandoned() || r.Attempt != attempt || r.Fingerprint != fingerprint {
		f.Errorf("the record is %s of %s, want attempt %d of %s, abandoned", describe(r), r.Fingerprint, attempt, fingerprint)
	}
}

// saysSinceWhen expects the record of a lease that ended at least so long ago.
func (f *fixture) saysSinceWhen(r *storage.Record, ended time.Duration) {
	f.Helper()
	if r.LeaseLeft > -ended {
		f.Errorf("LeaseLeft is %s, want the time since the lease has ended, %s or more below zero", r.LeaseLeft, ended)
	}
}

// replays expects every caller to get the lease's result.
func (f *fixture) replays(l storage.Lease, want storage.Result) {
	f.Helper()
	f.shows(f.find(of(f.takeOver(), l.Key)), l, want)
}

// shows expects the record to be the lease's result.
func (f *fixture) shows(r *storage.Record, l storage.Lease, want storage.Result) {
	f.Helper()
	if r.State != want.State || r.Status != want.Status || !bytes.Equal(r.Body, want.Body) || !slices.Equal(r.Header, want.Header) {
		f.Fatalf("the record is %s\nwant %s %d %v, %s", describe(r), want.State, want.Status, want.Header, shorten(want.Body))
	}
	if !bytes.Equal(r.Sketch, want.Sketch) {
		f.Fatalf("the record's sketch is %q, want %q", r.Sketch, want.Sketch)
	}
	f.isOf(r, l)
}

// isOf expects the record to be of the lease's request and attempt.
func (f *fixture) isOf(r *storage.Record, l storage.Lease) {
	f.Helper()
	if r.Attempt != l.Attempt || r.Fingerprint != l.Fingerprint || r.Digest != l.Digest {
		f.Fatalf("the record is of attempt %d, %s, digest %x\nwant %d, %s, digest %x",
			r.Attempt, r.Fingerprint, r.Digest, l.Attempt, l.Fingerprint, l.Digest)
	}
}

func (f *fixture) isLost(method string, err error) {
	f.Helper()
	f.isError(method, err, storage.ErrLeaseLost)
}

func (f *fixture) isError(method string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("%s returned %v, want an error that is %q", method, err, want)
	}
}

func describe(r *storage.Record) string {
	return fmt.Sprintf("{%s attempt:%d lease left:%s status:%d header:%v body:%s}",
		r.State, r.Attempt, r.LeaseLeft, r.Status, r.Header, shorten(r.Body))
}

func shorten(body []byte) string {
	const enough = 64
	if len(body) > enough {
		return fmt.Sprintf("%q... (%d bytes)", body[:enough], len(body))
	}
	return fmt.Sprintf("%q", body)
}
