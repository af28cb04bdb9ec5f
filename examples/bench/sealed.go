package main

import (
	"crypto/aes"
	"crypto/cipher"
	"net/http"

	"github.com/oncekey/oncekey/core/sealedstore"
)

// gcm is AES-256-GCM with a random nonce, as a sealedstore.AEAD.
type gcm struct{ cipher.AEAD }

func newGCM() (gcm, error) {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		return gcm{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return gcm{aead}, err
}

// Encrypt implements sealedstore.AEAD.
func (g gcm) Encrypt(plaintext, data []byte) ([]byte, error) {
	return g.Seal(nil, nil, plaintext, data), nil //nolint:gosec // the AEAD makes a random nonce
}

// Decrypt implements sealedstore.AEAD.
func (g gcm) Decrypt(ciphertext, data []byte) ([]byte, error) {
	return g.Open(nil, nil, ciphertext, data)
}

// sealed is net/http with sealed records in memory.
func sealed() guard {
	return guard{"net/http, sealed", nil, func(handler http.HandlerFunc) (http.Handler, error) {
		aead, err := newGCM()
		if err != nil {
			return nil, err
		}
		engine, err := newEngine(sealedstore.New(newMemory(), aead))
		if err != nil {
			return nil, err
		}
		return engine.Handler(handler), nil
	}}
}
