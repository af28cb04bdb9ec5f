// Package rpc is the part that adapters/grpc and adapters/connect share: the
// translation between a unary call and package core, and the rules of their clients.
//
// The package has no rules of its own. It gives core a request and a response of HTTP:
//
//   - The procedure ("/shop.v1.Payments/Pay") is the path of a POST, the metadata are
//     its header, and AppendText writes the message as its JSON body. So the key, its
//     format, the scope, the fingerprint, excluded fields and all other options of a
//     policy work as for HTTP.
//   - A response has the HTTP status of its code (see HTTPStatus). Its body is the
//     message in the binary encoding, or the google.rpc.Status of an error. Header and
//     trailer metadata are its header and its trailers.
//
// Both adapters store equal records: a call over gRPC and its retry over Connect are one
// operation.
package rpc
