package storetest

import (
	"encoding/hex"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// The bugs of stores that look at a request before they have its claim.
const (
	peekIgnoresDigest   bug = "a record of another digest needs no claim"
	peekFindsExpired    bug = "a record that has expired needs no claim"
	peekFindsUnfinished bug = "an unfinished record needs no claim"
	peekLosesOrigin     bug = "a record without a claim has no origin"
	claimsLate          bug = "a request is asked for its claim too late"
	claimsWithoutText   bug = "a lease has no fingerprint"
)

// peek returns the record of a retry without its claim.
func (m *model) peek(request storage.Request) *storage.Record {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	key, digest := request.Peek()
	name := hex.EncodeToString(key[:])
	e := m.lookUp(name)
	if m.bug == peekFindsExpired {
		e = m.records[m.name(name)]
	}
	switch {
	case digest == storage.Digest{} || e == nil || e.State == 0:
		return nil
	case !e.isOver() && m.bug != peekFindsUnfinished, !digest.Repeats(e.Record.Digest) && m.bug != peekIgnoresDigest:
		return nil
	}
	r := e.Record
	r.Fingerprint = ""
	if m.bug == peekLosesOrigin {
		r.Origin = storage.Origin{}
	}
	return &r
}

func (m *model) claimOf(request storage.Request) storage.Claim {
	c := request.Claim()
	switch m.bug {
	case claimsLate:
		time.AfterFunc(time.Millisecond, func() { request.Claim() })
	case claimsWithoutText:
		c.Fingerprint = ""
	default:
	}
	return c
}
