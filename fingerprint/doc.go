// Package fingerprint tells whether a retry carries the same request as the
// attempt before it.
//
// An Idempotency-Key names one operation. When it comes back with another
// payload that is a mistake of the client, and replaying the first answer would
// hide it; so every record keeps a fingerprint of its request, and a retry must
// match it:
//
//	exclusion, err := fingerprint.Exclude("timestamp", "meta.trace.id")
//	...
//	sum := fingerprint.Of(fingerprint.Request{
//		Method: "POST", Path: "/payments", ContentType: "application/json", Body: body,
//	}, exclusion)
//	if sum != record.Fingerprint { ... } // 422: the key was used for something else
//
// [Read] is for whoever takes the fingerprint of each request: it allocates
// nothing, and what it read can be sketched as well.
//
// # What counts
//
// A fingerprint is SHA-256 over these parts, each preceded by its length, so
// that no two lists of parts run together into the same bytes: a version, the
// method, the path, the query, the media type, the kind of body and the body.
//
//   - JSON (application/json and every +json type) counts by what it says: white
//     space, the order of members and the spelling of strings do not matter,
//     everything else does. Numbers count as spelled: 1.0 is not 1, and
//     9007199254740993 is never rounded to its neighbour. Duplicate members all
//     count, in their order; so do members whose names differ only in case, because
//     encoding/json gives both to one field. A lone surrogate or a byte that is not
//     UTF-8 is equal to itself alone.
//   - Queries and application/x-www-form-urlencoded bodies are sorted by name;
//     the values of one name keep their order. A malformed escape is kept as
//     spelled. As a parser sees it, "a" is "a=", "+" is "%20", and "a=1&&b=2"
//     has no third pair.
//   - multipart/form-data counts part by part, in order, without its boundary:
//     disposition (hence name and file name), content type, transfer encoding
//     and content.
//   - Anything else counts byte by byte, and so does a body that is not what its
//     content type says: JSON that is malformed or nested deeper than 512, a form
//     of more than 1,000 parts or with more than 128 KiB of part headers. A content
//     type of more than 4 KiB is not parsed: it and the body count byte by byte.
//   - The media type counts without regard to case or the order of its
//     parameters, and charset=utf-8 is the same as none.
//
// # What can be left out
//
// [Exclude] describes its notation. What is excluded leaves no trace: the
// fingerprint is the one of the document without it, which is what [Strip]
// returns.
//
// # What changed
//
// That two fingerprints differ says nothing of why. [Reading.AppendSketch] makes
// short keyed hashes of a request's members, to be kept beside the fingerprint, and
// [Reading.Differences] names the members of a later request that they do not fit, in the
// notation of [Exclude]: an honest retry with a new timestamp names "timestamp". They
// name only text that passes [LooksLikeName].
//
// # What it does not do
//
// It does not repair: the path must arrive in one spelling, and the method in
// upper case. It does not compare numbers by value, as RFC 8785 (JSON
// Canonicalization Scheme) does: that goes by way of IEEE 754 doubles, and two
// payments that differ in the seventeenth digit would be one. RFC 8785 also
// refuses duplicate members and lone surrogates; a request with either may reach
// a handler all the same, so here they have a fingerprint. It does not sniff: a
// body without a content type is bytes. Unicode normalisation is not applied.
//
// # Sources
//
// RFC 8259 (JSON), the WHATWG URL Standard (form encoding), RFC 7578
// (multipart/form-data), RFC 9110 (media types), FIPS 180-4 (SHA-256).
package fingerprint
