package rpc

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Stored fingerprints outlive a deployment: another text for the same message would make
// every retry another request.
func TestTextIsFixed(t *testing.T) {
	t.Parallel()
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 7)
	unknown = protowire.AppendString(protowire.AppendTag(unknown, 98, protowire.BytesType), "x")
	unknown = protowire.AppendVarint(protowire.AppendTag(unknown, 99, protowire.VarintType), 8)
	message := &shop.PayRequest{
		RequestId: "a\"\\\n\u00e9", Amount: -1, ClientTime: &timestamppb.Timestamp{Seconds: 5},
		Items:  []*shop.Item{{Sku: "s", Count: 2}, {}},
		Labels: map[string]string{"b": "2", "a": "1"}, Method: &shop.PayRequest_Token{Token: []byte{0, 255}},
		Tip: proto.Int32(0), Rate: math.Inf(-1), Kind: shop.Kind_KIND_CARD, Gift: true, Account: math.MaxUint64,
		Places: map[int32]*shop.Item{10: {}, 9: {}}, Extra: &anypb.Any{TypeUrl: "t", Value: []byte("v")},
	}
	message.ProtoReflect().SetUnknown(unknown)
	const want = `{"request_id":"a\"\\\u000a` + "\u00e9" + `","amount":-1,"client_time":{"seconds":5},"items":[{"sku":"s","count":2},{}],` +
		`"labels":{"a":"1","b":"2"},"token":"AP8=","tip":0,"rate":"-Inf","kind":1,"places":{"10":{},"9":{}},` +
		`"extra":{"type_url":"t","value":"dg=="},"gift":true,"account":18446744073709551615,"?98":"kgYBeA==","?99":"mAYHmAYI"}`
	for range 20 { // maps have no order
		if got := string(AppendText(nil, message.ProtoReflect(), math.MaxInt64)); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
	if !json.Valid([]byte(want)) {
		t.Error("the text is not JSON")
	}
}

func TestTextOfAnEmptyMessage(t *testing.T) {
	t.Parallel()
	testkit.Equal(t, string(AppendText(nil, (*shop.PayRequest)(nil).ProtoReflect(), math.MaxInt64)), "{}", "the text of no message")
	if got := string(AppendText(nil, (&shop.PayRequest{Rate: 0.1}).ProtoReflect(), math.MaxInt64)); got != `{"rate":0.1}` {
		t.Errorf("got %s", got)
	}
}

// Every message is a JSON document, and two messages with equal texts are equal.
func FuzzText(f *testing.F) {
	f.Add([]byte{8, 1}, []byte{16, 1})
	f.Add([]byte("\x0a\x02hi"), []byte("\x0a\x02ho"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		first, second := new(shop.PayRequest), new(shop.PayRequest)
		if proto.Unmarshal(a, first) != nil || proto.Unmarshal(b, second) != nil {
			t.Skip("no message")
		}
		text := AppendText(nil, first.ProtoReflect(), math.MaxInt64)
		if !json.Valid(text) {
			t.Fatalf("not JSON: %s", text)
		}
		equal := bytes.Equal(text, AppendText(nil, second.ProtoReflect(), math.MaxInt64))
		if equal && !proto.Equal(first, second) {
			t.Errorf("%v and %v have the text %s", first, second, text)
		}
		if !equal && proto.Equal(first, second) && !math.IsNaN(first.GetRate()) {
			// proto.Equal compares unknown fields in their order by number, as AppendText does
			t.Errorf("equal messages have two texts: %s", text)
		}
	})
}
