package testkit

import (
	"crypto/aes"
	"crypto/cipher"
)

// GCM is AES-256-GCM with a random nonce before each ciphertext, as a sealedstore.AEAD.
type GCM struct{ aead cipher.AEAD }

// NewGCM returns an AEAD. Different numbers are different keys.
func NewGCM(key byte) GCM {
	block, err := aes.NewCipher(append(make([]byte, 31), key))
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return GCM{aead}
}

// Encrypt implements sealedstore.AEAD.
func (g GCM) Encrypt(plaintext, data []byte) ([]byte, error) {
	return g.aead.Seal(nil, nil, plaintext, data), nil
}

// Decrypt implements sealedstore.AEAD.
func (g GCM) Decrypt(ciphertext, data []byte) ([]byte, error) {
	return g.aead.Open(nil, nil, ciphertext, data)
}
