/** How the settings look for stores other than Amazon's. */
export const providers = `### Other stores

| Store | Settings |
|---|---|
| MinIO, Ceph, Garage | \`"endpoint": "https://minio.example.com:9000"\`, \`region\` as the server is configured (often \`us-east-1\`) |
| Cloudflare R2 | \`"endpoint": "https://<account id>.r2.cloudflarestorage.com"\`, \`"region": "auto"\`, an R2 API token's key pair |
| Google Cloud Storage | \`"endpoint": "https://storage.googleapis.com"\`, \`"region": "auto"\`, an [HMAC key](https://cloud.google.com/storage/docs/authentication/hmackeys) of a service account |

The tests run against a server of our own and, where it is installed, versitygw. Amazon S3, MinIO, R2 and Google Cloud Storage
themselves were never run.

The keys come from these settings alone: never from the environment, the machine's role or a metadata service. A store on a private
address needs an entry in \`EGRESS_ALLOW\` by the operator. A redirect is never followed, because requests are signed for one host;
if a bucket is in another region, the error names it.`
