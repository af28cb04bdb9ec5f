package storage

import (
	"encoding/hex"

	"github.com/oncekey/oncekey/core/internal/frame"
)

// Key returns the storage key of a record: the SHA-256 of scope, method, path and
// key as 64 hex digits. A length precedes each part, so "a:b"+"c" and "a"+"b:c" give
// two storage keys. For an engine with a service name, call Engine.StorageKey.
//
// Host is not part of the storage key. A client that retries through another host
// name is the same client and must not pay twice. Use core.ScopeByHost where Host
// alone identifies the tenant.
func Key(scope, method, path, key string) string {
	sum := frame.Sum(scope, method, path, key)
	return hex.EncodeToString(sum[:])
}

// MethodCall is the method of records made by core.Do. The path of such a record
// is the function's name.
const MethodCall = "CALL"

// MethodTool is the method of records made for tools of an MCP server (adapters/mcp).
// The path of such a record is the tool's name.
const MethodTool = "TOOL"
