
º
º
'
deployment.environment.name
latest

opencode.client
cli

opencode.run

460d9fcb
!
service.instance.id

460d9fcb

service.name

opencode

service.version
7.7.7ú


opencodeZ	Info	‚<5æôbìY‚<5æôbì2
fiberIdÄÐ*
event connectedJeÓ B<ÛCÀ¼Æ‹ç"ÿaÛR§Ù´*íðœ	Info	FDõbìYFDõbì2
fiberId¢Ñ*F*D

loop
:
8{"session.id":"ses_ddae08c89ffeDB2KChk3WgNduB","step":0}J¾œÍh4„âVãŠVÿ³R„.-Ž#Xb