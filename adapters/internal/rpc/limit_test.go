package rpc

import (
	"bytes"
	"encoding/json"
	"math"
	"runtime"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
)

// unknownFields returns n fields of different numbers from 1,000 on.
func unknownFields(n int, reversed bool) (raw []byte) {
	for i := range n {
		if reversed {
			i = n - 1 - i
		}
		raw = protowire.AppendVarint(protowire.AppendTag(raw, protowire.Number(1000+i), protowire.VarintType), 1)
	}
	return raw
}

// Case 89: the size of a message is checked before a part of it is sorted, so a message
// that is too large takes no more memory than its limit.
func TestTooLargeMessageIsNotSorted(t *testing.T) { //nolint:paralleltest // others would allocate in between
	const limit = 1 << 20
	unknown := &shop.PayRequest{}
	unknown.ProtoReflect().SetUnknown(unknownFields(1_000_000, true))
	inner := &shop.PayRequest{Items: []*shop.Item{{Sku: "s"}, {}}}
	inner.Items[1].ProtoReflect().SetUnknown(unknownFields(1_000_000, true))
	places, labels := map[int32]*shop.Item{}, map[string]string{}
	for i := range int32(250_000) {
		places[i] = nil
		labels[string(i)] = ""
	}
	for name, row := range map[string]struct {
		message *shop.PayRequest
		most    uint64
	}{
		"unknown fields":            {unknown, 4 * limit},
		"unknown fields of an item": {inner, 4 * limit},
		"a map of numbers":          {&shop.PayRequest{Places: places}, 4 * limit},
		"a map of texts":            {&shop.PayRequest{Labels: labels}, 4 * limit},
		"a list":                    {&shop.PayRequest{Items: make([]*shop.Item, 1_000_000)}, 16 * limit}, // 40 bytes of garbage for an item
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text := AppendText(make([]byte, 0, limit+256), row.message.ProtoReflect(), limit)
		runtime.ReadMemStats(&after)
		if len(text) <= limit || len(text) > limit+limit/2 {
			t.Errorf("%s: the text has %d bytes, want little more than %d", name, len(text), limit)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > row.most {
			t.Errorf("%s: %d KiB allocated, want at most %d", name, allocated>>10, row.most>>10)
		}
	}
}

// A text within its limit does not depend on the limit.
func TestTextWithinItsLimit(t *testing.T) {
	t.Parallel()
	message := &shop.PayRequest{
		Items: []*shop.Item{{Sku: "s"}}, Labels: map[string]string{"a": "1"}, Places: map[int32]*shop.Item{1: {Sku: "t"}},
		Method: &shop.PayRequest_Token{Token: []byte("token")},
	}
	message.ProtoReflect().SetUnknown(unknownFields(3, true))
	whole := AppendText(nil, message.ProtoReflect(), math.MaxInt64)
	for limit := range int64(len(whole)) {
		if got := AppendText(nil, message.ProtoReflect(), limit); int64(len(got)) <= limit {
			t.Errorf("with the limit %d the text is %s", limit, got)
		}
	}
	if got := AppendText(nil, message.ProtoReflect(), int64(len(whole))); !bytes.Equal(got, whole) {
		t.Errorf("got  %s\nwant %s", got, whole)
	}
}

// Case 89: unknown fields are sorted up to a number, and count as received above it.
func TestManyUnknownFields(t *testing.T) {
	t.Parallel()
	textOf := func(unknown []byte) string {
		message := new(shop.PayRequest)
		message.ProtoReflect().SetUnknown(unknown)
		text := AppendText(nil, message.ProtoReflect(), math.MaxInt64)
		if !json.Valid(text) {
			t.Errorf("not JSON: %.80s", text)
		}
		return string(text)
	}
	if textOf(unknownFields(10_000, false)) != textOf(unknownFields(10_000, true)) {
		t.Error("10,000 unknown fields in another order have another text")
	}
	if textOf(unknownFields(10_001, false)) == textOf(unknownFields(10_001, true)) {
		t.Error("10,001 unknown fields are sorted")
	}
	more := append(unknownFields(10_001, false), unknownFields(1, false)...)
	if textOf(unknownFields(10_001, false)) == textOf(more) {
		t.Error("10,001 unknown fields do not count as received")
	}
}
