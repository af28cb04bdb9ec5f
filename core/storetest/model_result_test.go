package storetest

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

func (m *model) recordOf(l storage.Lease, res storage.Result) storage.Record {
	r := storage.Record{
		State: res.State, Fingerprint: l.Fingerprint, Digest: m.digest(l), Attempt: l.Attempt, Status: res.Status, Sketch: m.sketch(l, res),
	}
	if m.bug == digestOfResultForgotten || m.bug == digestOfForgottenForgotten && m.lookUp(l.Key) == nil {
		r.Digest = storage.Digest{}
	}
	m.finish(&r, l, res, time.Now())
	if res.State != storage.Unreplayable || m.bug == unreplayableKept {
		r.Body, r.Header = bytes.Clone(res.Body), slices.Clone(res.Header)
	}
	switch m.bug {
	case bodyRetained:
		r.Body = res.Body
	case headerRetained:
		r.Header = res.Header
	case headerSorted:
		slices.SortFunc(r.Header, func(a, b storage.Field) int { return bytes.Compare([]byte(a.Value), []byte(b.Value)) })
	case emptyValueDropped:
		r.Header = slices.DeleteFunc(r.Header, func(f storage.Field) bool { return f.Value == "" })
	case bodyMadeText:
		r.Body = bytes.ToValidUTF8(r.Body, []byte("?"))
	case headerValuesMerged:
		r.Header = slices.CompactFunc(r.Header, func(a, b storage.Field) bool { return strings.EqualFold(a.Name, b.Name) })
	case bodyCutAtNUL:
		r.Body, _, _ = bytes.Cut(r.Body, []byte{0})
	case stepsKeptAfterComplete:
		r.Steps = l.Steps
	default:
	}
	return r
}

func (m *model) sketch(l storage.Lease, res storage.Result) []byte {
	switch m.bug {
	case sketchForgotten:
		return nil
	case sketchRetained:
		return res.Sketch
	case sketchCutAtNUL:
		sketch, _, _ := bytes.Cut(res.Sketch, []byte{0})
		return sketch
	case sketchCutShort:
		return res.Sketch[:min(len(res.Sketch), 255)]
	case sketchOfTheOneBefore:
		if e := m.records[l.Key]; e != nil && len(res.Sketch) == 0 {
			return e.sketchBefore
		}
	case unreplayableUnsketched:
		if res.State == storage.Unreplayable {
			return nil
		}
	default:
	}
	return bytes.Clone(res.Sketch)
}

func (m *model) retain(l storage.Lease, res storage.Result) time.Duration {
	switch m.bug {
	case retainOfTheClaim:
		return l.Retain
	case retainIn32Bits:
		return time.Duration(int32(res.Retain.Milliseconds())) * time.Millisecond
	default:
		return res.Retain
	}
}
