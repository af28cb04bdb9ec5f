package storetest

import (
	"context"
	"encoding/hex"

	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Finder = (*model)(nil)

func (m *model) Find(_ context.Context, key [32]byte, digest storage.Digest) *storage.Record {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	name := hex.EncodeToString(key[:])
	e := m.lookUp(name)
	if m.bug == findsExpired {
		e = m.records[m.name(name)]
	}
	switch {
	case e == nil || m.bug == findsNoResult && e.State != storage.Expired:
		return nil
	case e.State <= storage.InProgress && m.bug != findsUnfinished:
		return nil
	case !digest.Repeats(e.Record.Digest) && m.bug != findsAnyDigest:
		return nil
	}
	r := e.Record
	r.Fingerprint = ""
	return &r
}
