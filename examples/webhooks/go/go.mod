module github.com/linkforge/linkforge/examples/webhooks/go

go 1.26

require github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
