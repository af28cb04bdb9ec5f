// Package tink shows package sealedstore with the key sets of Google's Tink
// (https://github.com/tink-crypto/tink-go): rotation, and a key service (KMS). It is a
// module of its own, so that the library does not depend on Tink.
package tink
