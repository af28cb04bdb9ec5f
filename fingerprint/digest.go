package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// digestVersion is the first part of every digest. It changes with the digest's
// parts, and only then: digests must stay equal across deployments.
const digestVersion = "oncekey/bytes/1"

// digestVersionHeaders stands for digestVersion in digests with header fields.
const digestVersionHeaders = "oncekey/bytes/1/headers"

// Digest returns a short hash of a request as received: method, path, query,
// content type, header fields and body, each framed by its length. Every byte counts, including
// excluded fields, so equal digests mean an equal request under any policy and any
// version of the fingerprint. Digest does not allocate unless the parts before the body
// take more than 512 bytes. It is safe for concurrent use.
func Digest(r Request) [16]byte {
	var buffer [1 << 9]byte
	framed := buffer[:0]
	version := digestVersion
	if len(r.Headers) > 0 {
		version = digestVersionHeaders
	}
	framed = appendParts(framed, version, r.Method, r.Path, r.RawQuery, r.ContentType)
	if len(r.Headers) > 0 {
		framed = binary.BigEndian.AppendUint64(framed, uint64(len(r.Headers)))
		for _, field := range r.Headers {
			framed = appendParts(framed, field.Name, field.Value)
		}
	}
	var sum [sha256.Size]byte
	if len(framed)+len(r.Body) <= len(buffer) { // for a short body two writes take longer than a copy
		sum = sha256.Sum256(append(framed, r.Body...))
		return [16]byte(sum[:16])
	}
	hash := sha256.New()
	hash.Write(framed)
	hash.Write(r.Body) // saves a copy
	hash.Sum(sum[:0])
	return [16]byte(sum[:16])
}

// exactPrefix begins the fingerprints of requests of which every byte counts.
const exactPrefix = "exact:"

// AppendExact appends the fingerprint of a request of which every byte counts, given its
// Digest: at most [Size] bytes. It equals no fingerprint that [Of] returns.
func AppendExact(dst []byte, digest [16]byte) []byte {
	return hex.AppendEncode(append(dst, exactPrefix...), digest[:])
}

// appendParts appends each part and its length.
func appendParts(framed []byte, parts ...string) []byte {
	for _, part := range parts {
		framed = binary.BigEndian.AppendUint64(framed, uint64(len(part)))
		framed = append(framed, part...)
	}
	return framed
}
