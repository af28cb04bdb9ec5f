package storage

import (
	"encoding/hex"

	"github.com/oncekey/oncekey/core/internal/frame"
)

// Key returns the name under which a record is stored: the SHA-256 of
// scope, method, path and key as 64 hex digits. Each part is framed by its
// length, so "a:b"+"c" and "a"+"b:c" are two names. For an engine that has a
// service's name, ask Engine.StorageKey.
//
// Host is not part of the name. A client that retries through another host name
// is the same client and must not pay twice. ScopeByHost separates tenants that
// are told apart by Host alone.
func Key(scope, method, path, key string) string {
	sum := frame.Sum(scope, method, path, key)
	return hex.EncodeToString(sum[:])
}

// MethodCall is the method of records that core.Do made. Their path is the
// function's name.
const MethodCall = "CALL"
