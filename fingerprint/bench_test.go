package fingerprint_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
)

// paymentOf returns a JSON document of about size bytes, as clients send
// documents: unordered members, records in an array.
func paymentOf(size int) []byte {
	var doc bytes.Buffer
	doc.WriteString(`{"timestamp":"2026-05-01T12:00:00Z","amount":1999,"currency":"EUR","customer":{"id":"cus_1042","email":"ada@example.org"},"items":[`)
	for i := 0; doc.Len() < size-120; i++ {
		if i > 0 {
			doc.WriteByte(',')
		}
		fmt.Fprintf(&doc, `{"sku":"sku-%06d","quantity":%d,"price":%d.50,"description":"A thing of some use, number %d","nonce":"%08x"}`, i, i%7+1, i%100, i, uint64(i)*2654435761)
	}
	doc.WriteString(`],"meta":{"trace":{"id":"4bf92f3577b34da6a3ce929d0e0e4736"}}}`)
	return doc.Bytes()
}

// decodeFilterEncodeHash is a simple fingerprint with encoding/json.
func decodeFilterEncodeHash(doc []byte, excluded string) {
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		panic(err)
	}
	canonical, err := json.Marshal(without(value, excluded))
	if err != nil {
		panic(err)
	}
	sha256.Sum256(canonical)
}

func without(value any, excluded string) any {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if strings.EqualFold(name, excluded) {
				delete(value, name)
			} else {
				value[name] = without(inner, excluded)
			}
		}
	case []any:
		for i, inner := range value {
			value[i] = without(inner, excluded)
		}
	}
	return value
}

func BenchmarkOf(b *testing.B) {
	exclusion, err := fingerprint.Exclude("timestamp", "meta.trace.id", "items.*.nonce")
	testkit.Must(b, err)
	for _, size := range []struct {
		name  string
		bytes int
	}{{"200B", 200}, {"2KB", 2 << 10}, {"64KB", 64 << 10}, {"1MB", 1 << 20}} {
		body := paymentOf(size.bytes)
		request := fingerprint.Request{Method: "POST", Path: "/payments", ContentType: "application/json", Body: body}
		for _, method := range []struct {
			name string
			run  func()
		}{
			{"Of", func() { fingerprint.Of(request, nil) }},
			{"OfExcluding", func() { fingerprint.Of(request, exclusion) }},
			{"SHA256", func() { sha256.Sum256(body) }},
			{"json.Valid", func() { json.Valid(body) }},
			{"DecodeFilterEncodeHash", func() { decodeFilterEncodeHash(body, "timestamp") }},
		} {
			b.Run(size.name+"/"+method.name, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					method.run()
				}
			})
		}
	}
}
