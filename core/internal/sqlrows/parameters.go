package sqlrows

import (
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// parameter is a named parameter of the statements.
type parameter int

const (
	pNow parameter = iota
	pKey
	pState
	pAttempt
	pTookOver
	pToken
	pFingerprint
	pDigest
	pOrigin
	pSteps
	pStepsLength
	pKeepSteps
	pLease
	pKeep
	pRetain
	pFirst
	pAge
	pKeepClaimed
	pSettled
	pStatus
	pHeader
	pBody
	pSketch
	pSeenToken
	pSeenRevision
	pLimit
	pStates
	parameterCount
)

// parameters are the names in the statements. Durations are in microseconds.
var parameters = map[string]parameter{
	"now": pNow, "key": pKey, "state": pState, "attempt": pAttempt, "took_over": pTookOver, "token": pToken, "fingerprint": pFingerprint,
	"digest": pDigest, "origin": pOrigin,
	"steps": pSteps, "steps_length": pStepsLength,
	"keep_steps": pKeepSteps, // 1: the row keeps its steps, if they are longer
	"lease":      pLease,     // the rest of the lease, or null
	"keep":       pKeep,      // the time for which the row is kept
	"retain":     pRetain,    // the time until the row is a tombstone, or null without a tombstone
	"first":      pFirst,     // the earlier of both, for the sweeper
	"age":        pAge, "keep_claimed": pKeepClaimed,
	"settled": pSettled, // 0: settled now; null: not settled
	"status":  pStatus, "header": pHeader, "body": pBody, "sketch": pSketch,
	"seen_token": pSeenToken, "seen_revision": pSeenRevision, "limit": pLimit,
	"states": pStates, // of a list, each with a comma before and after it; empty: all
}

// arrays are the types of the parameters in a statement of several records, if they are not
// bigint.
var arrays = map[parameter]string{
	pKey: "text", pState: "text", pOrigin: "text", pHeader: "text",
	pToken: "bytea", pFingerprint: "bytea", pDigest: "bytea", pBody: "bytea", pSketch: "bytea",
}

// Arguments are the values of the parameters. The zero value has null for all.
type Arguments [parameterCount]any

// of returns Arguments that name an attempt.
func of(l *storage.Lease) *Arguments {
	a := &Arguments{}
	a[pKey], a[pToken], a[pAttempt], a[pStepsLength] = l.Key, l.Token[:], int64(l.Attempt), int64(0)
	return a
}

// keeps sets the parameters for the end of the row and of its response.
func (a *Arguments) keeps(retain, remember time.Duration) {
	kept := microseconds(retain)
	a[pFirst] = kept
	if remember > 0 {
		a[pRetain] = kept
		kept += microseconds(remember)
	}
	a[pKeep] = kept
}

// request sets the parameters for the request and the origin of a claim.
func (a *Arguments) request(c *storage.Claim) {
	a[pFingerprint] = packFingerprint(c.Fingerprint)
	if c.Origin != (storage.Origin{}) {
		a[pOrigin] = records.OriginText(c.Origin)
	}
	if c.Digest != (storage.Digest{}) {
		a[pDigest] = c.Digest[:]
	}
}

// result sets the parameters of a finished record.
func (a *Arguments) result(res *storage.Result) {
	a.keeps(res.Retain, res.Remember)
	a[pState], a[pStatus], a[pSettled] = res.State.String(), int64(res.Status), int64(0)
	if res.State != storage.Unreplayable {
		a[pHeader] = encodeHeader(res.Header)
		a[pBody] = nullable(res.Body)
	}
	a[pSketch] = nullable(res.Sketch)
}

// running sets the parameters of a record in progress.
func (a *Arguments) running(ttl time.Duration) {
	a[pState], a[pLease] = inProgress, microseconds(ttl)
}

// steps sets the parameters for the steps of a lease.
func (a *Arguments) steps(l *storage.Lease) {
	a[pStepsLength] = int64(len(l.Steps))
	if l.Steps != "" {
		a[pSteps] = []byte(l.Steps)
	}
}

// KeyOf is the argument for a record's key.
func KeyOf(key string) *Arguments { return &Arguments{pKey: key} }

// Size is about the number of bytes of all arguments.
func (a *Arguments) Size() (bytes int) {
	for _, value := range a {
		switch v := value.(type) {
		case []byte:
			bytes += len(v)
		case string:
			bytes += len(v)
		}
	}
	return bytes
}

// microseconds rounds up, so that a record is kept for at least d.
func microseconds(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// nullable returns null for no bytes.
func nullable(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
