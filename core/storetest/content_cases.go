package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

var contentCases = []testCase{
	{
		name: "large binary bodies",
		rule: "a body of a mebibyte, or around any power of two, comes back byte by byte, whatever the bytes are",
		test: func(f *fixture) {
			random := rand.NewChaCha8([32]byte{1}) // the same in each run
			for i, size := range []int{1<<12 - 1, 1 << 13, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1<<20 - 1, 1 << 20} {
				lease := f.win(of(f.claim(), key(i)), 1, false)
				res := f.result(lease)
				res.Body = make([]byte, size)
				_, _ = random.Read(res.Body) // Read never fails
				f.complete(lease, res)
				f.replays(lease, res)
			}
		},
	},
	{
		name: "many values of one header",
		rule: "every value of a header name comes back, in the same order, equal values too",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			res := f.result(lease)
			for n := range 300 {
				res.Header = append(res.Header,
					storage.Field{Op: storage.Add, Name: "Link", Value: fmt.Sprintf("<%d>; rel=item, <x>", n%100)},
					storage.Field{Op: storage.Set, Name: "link", Value: fmt.Sprint(-n)}) // another spelling is another name
			}
			f.complete(lease, res)
			f.replays(lease, res)
		},
	},
	{
		name: "sketch",
		rule: "every finished record has the Result's Sketch, of no bytes or of up to 1024 arbitrary bytes; a record in progress " +
			"has none, and the next result of a key that has expired has only its own sketch",
		test: func(f *fixture) {
			for i, sketch := range sketches() {
				for _, state := range []storage.State{storage.Completed, storage.Failed, storage.Unreplayable} {
					lease := f.win(of(f.claim(), key(10*i+int(state))), 1, false)
					f.complete(lease, storage.Result{State: state, Status: 201, Sketch: sketch, Retain: f.long()})
					f.replays(lease, storage.Result{State: state, Status: 201, Sketch: sketch})
				}
			}
			f.finish(f.win(f.claim(), 1, false), f.unit, 0)
			f.wait(2 * f.unit)
			next := f.win(f.takeOver(), 1, false)
			if r := f.find(f.claim()); len(r.Sketch) != 0 {
				f.Errorf("the record in progress has the sketch %q, want none", r.Sketch)
			}
			res := f.result(next)
			res.Sketch = nil
			f.complete(next, res)
			f.replays(next, res)
		},
	},
	{
		name: "any text",
		rule: "fingerprints are any valid UTF-8 without NUL, and are compared byte by byte; header names and values are any bytes at all",
		test: func(f *fixture) {
			for i, text := range texts() {
				c := f.shortClaim()
				c.Key, c.Fingerprint = key(i), text
				first := f.win(c, 1, false)
				if r := f.find(of(f.claim(), c.Key)); r.Fingerprint != text {
					f.Fatalf("the fingerprint is %q, want %q", r.Fingerprint, text)
				}
				f.wait(2 * f.unit)
				other := of(f.takeOver(), c.Key)
				other.Fingerprint, other.Digest = text+" ", otherDigest
				f.find(other)
				next := of(f.takeOver(), c.Key)
				next.Fingerprint, next.Digest = text, otherDigest
				lease := f.win(next, 2, true)
				f.isLost("Release", f.store.Release(f.Context(), first))
				res := f.result(lease)
				res.Header = nil
				for _, text := range append(texts(), "\x00", "\xff\xfe", "a\x00b\xc3", "\xed\xa0\x80") {
					res.Header = append(res.Header, storage.Field{Name: text, Value: text}, storage.Field{Name: "X-" + text, Value: "-" + text})
				}
				f.complete(lease, res)
				f.replays(lease, res)
			}
		},
	},
}

var fencingCases = []testCase{
	{
		name: "another token",
		rule: "a caller without the token does not hold the lease: with the right attempt number and another token, no call " +
			"completes, renews or releases a key that runs, was released or is finished, and no record changes",
		test: func(f *fixture) {
			_, current := f.overtaken()
			f.refuses(current)
			f.holds(current)
			f.complete(current, f.result(current))
			f.refuses(current)
			f.replays(current, f.result(current))

			f.abandon(of(f.shortClaim(), key(2)))
			released := f.win(of(f.takeOver(), key(2)), 2, true)
			f.release(released)
			f.refuses(released)
			f.win(of(f.claim(), key(2)), 3, false)
		},
	},
	{
		name: "fencing",
		rule: "a resource that refuses every attempt number below its highest never refuses the current holder, however the " +
			"holder got the key, and always refuses earlier holders",
		test: func(f *fixture) {
			var seen uint64
			for round := range 6 {
				c := f.takeOver()
				c.LockTTL = f.unit
				lease, record := f.acquire(c)
				if record != nil {
					f.Fatalf("round %d found %s, want the lease", round, describe(record))
				}
				if round > 0 && lease.Attempt <= seen {
					f.Fatalf("round %d got attempt %d after %d", round, lease.Attempt, seen)
				}
				seen = lease.Attempt
				if round%3 == 2 {
					f.release(lease)
				}
				f.wait(2 * f.unit)
			}
		},
	},
	{
		name: "callers' clocks",
		rule: "only the store's clock counts: all callers get the same end of a lease, within the time that the calls take",
		test: func(f *fixture) {
			c := f.claim()
			c.LockTTL, c.Retain = 10*f.long(), 20*f.long() // longer than thirty slow calls
			f.win(c, 1, false)
			start := time.Now()
			var lefts []time.Duration
			for range 30 {
				lefts = append(lefts, f.find(f.takeOver()).LeaseLeft+time.Since(start))
			}
			for _, left := range lefts {
				if difference := (left - lefts[0]).Abs(); difference > 10*f.unit {
					f.Errorf("two callers got ends of the lease that differ by %s", difference)
				}
			}
		},
	},
}

// of returns the claim, for another key.
func of(c storage.Claim, key string) storage.Claim {
	c.Key = key
	return c
}

// refuses expects ErrLeaseLost for a lease that differs only in its token.
func (f *fixture) refuses(l storage.Lease) {
	f.Helper()
	l.Token = storage.NewToken()
	f.loses(l)
}

// sketches have every length at which a store may fail, and every byte.
func sketches() [][]byte {
	all := make([]byte, 1024)
	for b := range all {
		all[b] = byte(255 - b)
	}
	return [][]byte{nil, {}, {0}, {0xff}, []byte("\n\x00\"}"), all[:255], all[:256], all}
}

// texts are valid UTF-8 without NUL that a store or its client may change.
func texts() []string {
	return []string{
		"价格 €5 \U0001f511", "e\u0301 \u00e9", "\u2028\u2029\ufeff\ufffd", "\x01\x1f\x7f\t\r\n", `"'` + "`" + `\n\u0000%00{}[]$1?;--`, "\n{}\n", "",
	}
}

// results are responses that a store may get wrong.
func (f *fixture) results() []storage.Result {
	response := func(state storage.State, status int, body string, header ...storage.Field) storage.Result {
		return storage.Result{State: state, Status: status, Body: []byte(body), Header: header, Sketch: []byte("sketch"), Retain: f.long()}
	}
	results := []storage.Result{
		response(storage.Completed, 200, ""),
		response(storage.Completed, 204, "", storage.Field{Op: storage.Set, Name: "Location", Value: ""}),
		response(storage.Failed, 422, `{"error":"no"}`, storage.Field{Op: storage.Set, Name: "Content-Type", Value: "application/json"}),
		response(storage.Completed, 999, "\x00"),
		response(storage.Completed, 100, "\n\n{\"token\":\"\"}\n\r\n"),
		response(storage.Completed, 201, "invalid UTF-8: \xff\xfe\x80, and NUL: \x00, and quotes: \"'`\\"),
		response(storage.Completed, 201, strings.Repeat("0123456789abcde\n", 1<<16)), // 1 MiB
		response(storage.Completed, 201, "order",
			storage.Field{Op: storage.Add, Name: "Vary", Value: "Origin"},
			storage.Field{Op: storage.Set, Name: "Link", Value: "<b>; rel=next"},
			storage.Field{Op: storage.Delete, Name: "Server"},
			storage.Field{Op: storage.Set, Name: "Link", Value: "<a>; rel=prev"},
			storage.Field{Op: storage.Set, Name: "Link", Value: "<b>; rel=next"},
			storage.Field{Op: storage.Add, Name: "Vary", Value: "Accept"}),
		response(storage.Completed, 201, "ciphertext", storage.Field{Op: storage.Sealed, Name: "format", Value: "1"}),
	}
	// Any byte may occur in a value. Core, not the store, filters invalid headers.
	values := make(storage.Header, 0, 256)
	for b := range 256 {
		values = append(values, storage.Field{Op: storage.Set, Name: fmt.Sprintf("X-%d", b), Value: string([]byte{'a', byte(b), 'z'})})
	}
	values = append(values, storage.Field{Name: "X-Unicode", Value: "价格 €5 \u2028 \ufffd \U0001f511"}, storage.Field{Name: "X-Empty"})
	return append(results, response(storage.Completed, 201, "bytes", values...))
}
