// Package tink shows package sealedstore with the key sets of Google's Tink
// (https://github.com/tink-crypto/tink-go): rotation, and a key service (KMS). The
// examples are a module of their own, so that the library does not depend on Tink.
package tink
