package main

import (
	"context"
	"strings"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
)

// hashCommand prints the names of a key.
type hashCommand struct{ keyed }

// named is the JSON of the names of a key.
type named struct {
	Record string `json:"record"`
	Key    string `json:"keyHash"`
	Scope  string `json:"scopeHash,omitempty"`
}

// Run implements the command.
func (c *hashCommand) Run(ctx context.Context, out *printer, where *place) error {
	key := c.Key
	if method, _, _ := strings.Cut(c.Request, " "); !strings.EqualFold(method, storage.MethodCall) { // the key of core.Do is any text
		var err error
		if key, err = core.ParseKey(c.Key); err != nil {
			return usageError{err}
		}
	}
	from, err := where.anyPage(out)
	if err != nil {
		return err
	}
	record := new(inspector.Record)
	if _, err := from.post(ctx, "find", c.form(), record); err != nil {
		return err
	}
	names := named{record.Record, event.KeyHash(key), event.KeyHash(c.Scope)}
	if !out.isTable() {
		return out.document(names)
	}
	out.line("record=%s", names.Record)
	out.line("idempotency_key=%s", names.Key)
	if names.Scope != "" {
		out.line("scope=%s", names.Scope)
	}
	return nil
}

// anyStore is empty, and allows every policy of a program whose store is another one.
type anyStore struct{ *memstore.Store }

// Transacts is the method that storage.Transacts asks.
func (anyStore) Transacts() bool { return true }
